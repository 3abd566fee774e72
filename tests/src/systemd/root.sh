# A root directory of its own over the machine's, in namespaces of its own, and systemd as its first process. What belongs to the whole machine (sysctls, sysfs,
# modules, the clock) cannot be written from there: those files are read-only, and who could do without files may not.
# $1: an empty folder; $2: the agent; $3: its unit; $4: systemd.
set -e
mount -t tmpfs none "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
cd "$1/root"
read_only() {
  mount --bind "$1" "$1"
  mount -o remount,bind,ro "$1"
}
mount -t proc proc proc
for file in sys sysrq-trigger irq bus fs; do
  if [ -e proc/$file ]; then read_only proc/$file; fi
done
# Without what is mounted beneath it, but for where the kernel's tracepoints are described.
mount --bind /sys sys
mount -o remount,bind,ro sys
if mount -t tracefs none sys/kernel/tracing; then
  mount -o remount,bind,ro sys/kernel/tracing
fi
mount -t cgroup2 none sys/fs/cgroup
for folder in dev run tmp; do mount -t tmpfs none $folder; done
for node in null zero full random urandom tty; do
  touch dev/$node
  mount --bind /dev/$node dev/$node
done
ln -s /proc/self/fd dev/fd
mkdir dev/shm
rm -rf etc/systemd/system var/lib/drift-agent etc/drift
: > etc/fstab
mkdir -p etc/systemd/system etc/drift/policies old
cp "$3" etc/systemd/system/drift-agent.service
rm -f usr/sbin/drift-agent
touch usr/sbin/drift-agent
mount --bind "$2" usr/sbin/drift-agent
pivot_root . old
umount -l /old
# Nothing goes on where this is not so.
if ( : > /proc/sys/kernel/hostname ) 2> /dev/null; then
  echo "the machine's sysctls can be written from here" >&2
  exit 1
fi
exec env -i container=drift PATH=/usr/sbin:/usr/bin:/sbin:/bin setpriv \
  --bounding-set -sys_module,-sys_time,-sys_rawio,-sys_boot,-syslog,-mac_admin,-audit_control "$4" --unit=basic.target
