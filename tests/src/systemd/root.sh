# A root directory of its own over the machine's, in namespaces of its own, and systemd as its first process. What belongs to the whole machine cannot be written.
# $1: an empty folder; $2: the agent; $3: its unit.
set -e
mount -t tmpfs none "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
cd "$1/root"
mount -t proc proc proc
mount --bind proc/sys proc/sys
mount -o remount,bind,ro proc/sys
mount --rbind /sys sys
mount --make-rprivate sys
umount -R sys/fs/cgroup
mount -o remount,bind,ro sys
mount -t cgroup2 none sys/fs/cgroup
for folder in dev run tmp; do mount -t tmpfs none $folder; done
for node in null zero full random urandom tty; do
  touch dev/$node
  mount --bind /dev/$node dev/$node
done
ln -s /proc/self/fd dev/fd
mkdir dev/shm
rm -rf etc/systemd/system var/lib/drift-agent etc/drift
mkdir -p etc/systemd/system etc/drift/policies old
ln -s /dev/null etc/systemd/system/systemd-modules-load.service
cp "$3" etc/systemd/system/drift-agent.service
rm -f usr/sbin/drift-agent
touch usr/sbin/drift-agent
mount --bind "$2" usr/sbin/drift-agent
pivot_root . old
umount -l /old
exec env -i container=drift PATH=/usr/sbin:/usr/bin:/sbin:/bin "$4" --unit=basic.target
