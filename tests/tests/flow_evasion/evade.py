"""Ways of changing a file, for the test `flow_evasion`.

    python3 -c EVADE TECHNIQUE FOLDER...

Each folder holds a declared path `g/p/f` and may be filled with whatever else the technique needs. When all are ready the word `ready` is printed and one line of
standard input waited for; then the technique is used in each folder, and a line of JSON says where, from when to when (the wall clock, nanoseconds), and which
processes may be named for it.

A technique is a function of one folder. What it does before its first `yield` is done before the word `ready`; one that yields a number of seconds later goes on
after so long, in all folders together.
"""

import array
import ctypes
import fcntl
import inspect
import json
import mmap
import os
import signal
import socket
import struct
import sys
import threading
import time

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.syscall.restype = ctypes.c_long
LIBC.mmap.restype = ctypes.c_void_p

DECLARED = b"".join(b"setting_%04d = value\n" % n for n in range(400))
OTHER = DECLARED.replace(b"value", b"other")
CWD = -100


def check(result):
    if result == -1 or result is None:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def call(number, *arguments):
    wide = [ctypes.c_long(argument) if isinstance(argument, int) else argument for argument in arguments]
    return check(LIBC.syscall(ctypes.c_long(number), *wide))


class Folder:
    def __init__(self, folder):
        self.folder = folder
        self.grand = f"{folder}/g"
        self.parent = f"{folder}/g/p"
        self.path = f"{folder}/g/p/f"
        self.pids = [os.getpid()]
        self.began = self.ended = 0

    def spare(self, name):
        return f"{self.folder}/{name}"

    def now(self):
        """From here on it is changed."""
        self.began = time.time_ns()

    def over(self):
        """What follows changes nothing more."""
        self.ended = time.time_ns()

    def twin(self, name, content=OTHER, mode=0o640):
        """Another file, with the declared mode."""
        path = self.spare(name)
        with open(path, "wb") as file:
            file.write(content)
            os.fchmod(file.fileno(), mode)
        return path

    def twin_parent(self, name):
        os.mkdir(self.spare(name))
        return os.path.dirname(self.twin(f"{name}/f"))

    def twin_grand(self, name):
        os.mkdir(self.spare(name))
        return os.path.dirname(self.twin_parent(f"{name}/p"))


def apart(work):
    """Runs it in a process of its own, which must end well, and gives its number."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        except BaseException as error:
            print(repr(error), file=sys.stderr)
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    if status != 0:
        raise ChildProcessError(f"status {status}")
    return child


def opened(path, flags=os.O_WRONLY):
    return os.open(path, flags | os.O_CLOEXEC)


def written(fd, content=OTHER):
    assert os.pwrite(fd, content, 0) == len(content)


def rename_exchange(one, other):
    number = {"x86_64": 316, "aarch64": 276}[os.uname().machine]
    call(number, CWD, os.fsencode(one), CWD, os.fsencode(other), 2)


# ---- Writes by system call ------------------------------------------------------------------------------------------------


def write(f):
    fd = opened(f.path)
    os.write(fd, OTHER)
    os.close(fd)


def pwritev2(f):
    fd = opened(f.path)
    os.pwritev(fd, [OTHER[:100], OTHER[100:]], 0, os.RWF_DSYNC)
    os.close(fd)


def append(f):
    fd = opened(f.path, os.O_WRONLY | os.O_APPEND)
    os.write(fd, b"more = 1\n")
    os.close(fd)


def direct_io(f):
    buffer = mmap.mmap(-1, 4096)
    buffer.write(OTHER[:4096])
    fd = opened(f.path, os.O_WRONLY | os.O_DIRECT)
    os.pwritev(fd, [buffer], 0)
    os.close(fd)


def aio(f):
    """Linux's older asynchronous writes: io_setup, io_submit, io_getevents."""
    setup, destroy, getevents, submit = {"x86_64": (206, 207, 208, 209), "aarch64": (0, 1, 4, 2)}[os.uname().machine]
    context = ctypes.c_ulong(0)
    call(setup, 1, ctypes.byref(context))
    fd = opened(f.path)
    buffer = ctypes.create_string_buffer(OTHER, len(OTHER))
    block = ctypes.create_string_buffer(struct.pack("<QIIHhIQQqQII", 0, 0, 0, 1, 0, fd, ctypes.addressof(buffer), len(OTHER), 0, 0, 0, 0))
    blocks = (ctypes.c_void_p * 1)(ctypes.addressof(block))
    call(submit, context.value, 1, ctypes.byref(blocks))
    events = ctypes.create_string_buffer(32)
    call(getevents, context.value, 1, 1, ctypes.byref(events), None)
    os.close(fd)
    call(destroy, context.value)


def open_by_handle_at(f):
    name, by = {"x86_64": (303, 304), "aarch64": (264, 265)}[os.uname().machine]
    handle = ctypes.create_string_buffer(struct.pack("<Ii", 128, 0) + bytes(128))
    mount_id = ctypes.c_int(0)
    call(name, CWD, os.fsencode(f.path), ctypes.byref(handle), ctypes.byref(mount_id), 0)
    mount = os.open(f.folder, os.O_RDONLY)
    f.now()
    fd = call(by, mount, ctypes.byref(handle), os.O_WRONLY)
    os.write(fd, OTHER)
    os.close(fd)
    os.close(mount)


def sendfile(f):
    source, fd = opened(f.twin("source"), os.O_RDONLY), opened(f.path)
    f.now()
    os.sendfile(fd, source, 0, len(OTHER))
    os.close(fd)


def copy_file_range(f):
    source, fd = opened(f.twin("source"), os.O_RDONLY), opened(f.path)
    f.now()
    os.copy_file_range(source, fd, len(OTHER))
    os.close(fd)


def splice(f):
    read, pipe = os.pipe()
    os.write(pipe, OTHER)
    fd = opened(f.path)
    os.splice(read, fd, len(OTHER))
    os.close(fd)


def keeps_open(f):
    """Written, and the descriptor stays open for longer than anybody waits."""
    fd = opened(f.path)
    os.write(fd, OTHER)
    f.over()
    yield 2.5
    os.close(fd)


# ---- Size and blocks ------------------------------------------------------------------------------------------------------


def truncate(f):
    os.truncate(f.path, 100)


def ftruncate(f):
    fd = opened(f.path)
    os.ftruncate(fd, 100)
    f.over()
    yield 2.5
    os.close(fd)


def open_truncating(f):
    os.close(opened(f.path, os.O_WRONLY | os.O_TRUNC))


def open_truncating_to_read(f):
    os.close(opened(f.path, os.O_RDONLY | os.O_TRUNC))


def fallocate_punch(f):
    number = {"x86_64": 285, "aarch64": 47}[os.uname().machine]
    fd = opened(f.path)
    call(number, fd, 3, 0, 4096)
    f.over()
    yield 2.5
    os.close(fd)


def ficlone(f):
    source, fd = opened(f.twin("source"), os.O_RDONLY), opened(f.path)
    f.now()
    fcntl.ioctl(fd, 0x40049409, source)
    f.over()
    yield 2.5
    os.close(fd)


# ---- Mappings -------------------------------------------------------------------------------------------------------------


def mapped(f):
    fd = opened(f.path, os.O_RDWR)
    mapping = mmap.mmap(fd, len(DECLARED))
    os.close(fd)
    return mapping


def mmap_store(f):
    mapping = mapped(f)
    mapping[:] = OTHER
    mapping.close()


def mmap_store_late(f):
    """Long after the descriptor was closed."""
    mapping = mapped(f)
    yield 1.5
    f.now()
    mapping[:] = OTHER
    mapping.close()


def mmap_store_again(f):
    """A second time, when the first store was seen, through pages that are dirty already."""
    mapping = mapped(f)
    mapping[:] = DECLARED.replace(b"value", b"first")
    yield 2.5
    f.now()
    mapping[:] = OTHER
    f.over()
    yield 2.5
    mapping.close()


def target(f):
    """A process that holds a mapping of the file, and where it is there."""
    read, pipe = os.pipe()
    child = os.fork()
    if child == 0:
        fd = os.open(f.path, os.O_RDWR)
        address = LIBC.mmap(None, ctypes.c_size_t(4096), 3, 1, fd, ctypes.c_long(0))
        os.close(fd)
        ctypes.string_at(address, 1)
        os.write(pipe, struct.pack("<Q", address))
        signal.pause()
        os._exit(0)
    os.close(pipe)
    address = struct.unpack("<Q", os.read(read, 8))[0]
    os.close(read)
    return child, address


def end(child):
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def process_vm_writev(f):
    child, address = target(f)
    yield 1.5
    f.now()
    buffer = ctypes.create_string_buffer(OTHER[:4096], 4096)
    here = struct.pack("<QQ", ctypes.addressof(buffer), 4096)
    there = struct.pack("<QQ", address, 4096)
    number = {"x86_64": 311, "aarch64": 271}[os.uname().machine]
    assert call(number, child, here, 1, there, 1, 0) == 4096
    f.over()
    yield 1.5
    end(child)


def ptrace_poke(f):
    child, address = target(f)
    yield 1.5
    f.now()
    LIBC.ptrace.restype = ctypes.c_long
    LIBC.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    check(LIBC.ptrace(16, child, None, None))
    os.waitpid(child, 0)
    check(LIBC.ptrace(5, child, address, struct.unpack("<Q", b"evil = 1")[0]))
    check(LIBC.ptrace(17, child, None, None))
    f.over()
    yield 1.5
    end(child)


# ---- io_uring -------------------------------------------------------------------------------------------------------------


class Ring:
    ENTRIES = 8

    def __init__(self, flags=0):
        self.flags = flags
        parameters = ctypes.create_string_buffer(struct.pack("<IIIII", 0, 0, flags, 0, 1000) + bytes(100))
        self.fd = call(425, self.ENTRIES, ctypes.byref(parameters))
        sq = struct.unpack_from("<10I", parameters.raw, 40)
        cq = struct.unpack_from("<10I", parameters.raw, 80)
        entries = struct.unpack_from("<II", parameters.raw, 0)
        self.head, self.tail, self.mask, _, self.sq_flags, _, self.array = sq[:7]
        self.cq_head, self.cq_tail, self.cq_mask, _, _, self.cqes = cq[:6]
        self.sq = mmap.mmap(self.fd, self.array + entries[0] * 4, offset=0)
        self.cq = mmap.mmap(self.fd, self.cqes + entries[1] * 16, offset=0x8000000)
        self.sqes = mmap.mmap(self.fd, entries[0] * 64, offset=0x10000000)

    def word(self, at, ring=None):
        return struct.unpack_from("<I", ring or self.sq, at)[0]

    def do(self, opcode, fd, address=0, length=0, offset=0, flags=0, more=0):
        """One call; what it returns."""
        tail = self.word(self.tail)
        slot = tail & self.word(self.mask)
        struct.pack_into("<BBHiQQIIQHHiQQ", self.sqes, slot * 64, opcode, 0, 0, fd, offset, address, length, flags, 1, 0, 0, more, 0, 0)
        struct.pack_into("<I", self.sq, self.array + slot * 4, slot)
        struct.pack_into("<I", self.sq, self.tail, tail + 1)
        wake = 2 if self.flags & 2 and self.word(self.sq_flags) & 1 else 0
        call(426, self.fd, 0 if self.flags & 2 else 1, 1, 1 | wake, None, 0)
        head = self.word(self.cq_head, self.cq)
        while head == self.word(self.cq_tail, self.cq):
            pass
        at = self.cqes + (head & self.word(self.cq_mask, self.cq)) * 16
        result = struct.unpack_from("<i", self.cq, at + 8)[0]
        struct.pack_into("<I", self.cq, self.cq_head, head + 1)
        if result < 0:
            raise OSError(-result, os.strerror(-result))
        return result

    def close(self):
        for mapping in (self.sq, self.cq, self.sqes):
            mapping.close()
        os.close(self.fd)


def text(path):
    buffer = ctypes.create_string_buffer(os.fsencode(path))
    return buffer, ctypes.addressof(buffer)


def uring_write(f, flags=0):
    ring = Ring(flags)
    path, address = text(f.path)
    f.now()
    fd = ring.do(18, CWD, address, 0, flags=os.O_WRONLY)
    data = ctypes.create_string_buffer(OTHER, len(OTHER))
    assert ring.do(23, fd, ctypes.addressof(data), len(OTHER)) == len(OTHER)
    ring.do(19, fd)
    f.over()
    ring.close()


def uring_polled_write(f):
    uring_write(f, 2)


def uring_truncate(f):
    ring = Ring()
    path, address = text(f.path)
    ring.do(19, ring.do(18, CWD, address, 0, flags=os.O_WRONLY | os.O_TRUNC))
    ring.close()


def uring_rename(f):
    ring = Ring()
    old, old_address = text(f.twin("new"))
    new, new_address = text(f.path)
    f.now()
    ring.do(35, CWD, old_address, CWD & 0xFFFFFFFF, new_address)
    ring.close()


def uring_unlink(f):
    ring = Ring()
    path, address = text(f.path)
    f.now()
    ring.do(36, CWD, address)
    ring.close()


# ---- Attributes -----------------------------------------------------------------------------------------------------------


def chmod(f):
    os.chmod(f.path, 0o600)


def fchmod(f):
    fd = opened(f.path, os.O_RDONLY)
    os.fchmod(fd, 0o600)
    os.close(fd)


def chmod_by_descriptor_path(f):
    fd = os.open(f.path, os.O_PATH)
    os.chmod(f"/proc/self/fd/{fd}", 0o600)
    os.close(fd)


def chmod_through_link(f):
    os.symlink(f.path, f.spare("link"))
    f.now()
    os.chmod(f.spare("link"), 0o600)


def chmod_hard_link(f):
    os.link(f.path, f.spare("hard"))
    f.now()
    os.chmod(f.spare("hard"), 0o600)


def chown(f):
    os.chown(f.path, 1, -1)


def utimes(f):
    os.utime(f.path, (1000, 1000))


def utimes_back(f):
    """Other content of equal size, and the times as they were."""
    before = os.stat(f.path)
    f.now()
    write(f)
    os.utime(f.path, ns=(before.st_atime_ns, before.st_mtime_ns))


def chattr(f):
    fd = opened(f.path, os.O_RDONLY)
    flags = array.array("i", [0])
    fcntl.ioctl(fd, 0x80086601, flags)
    flags[0] |= 0x20
    fcntl.ioctl(fd, 0x40086602, flags)
    os.close(fd)


def setxattr(f):
    os.setxattr(f.path, "user.drift", b"other")


def fremovexattr(f):
    fd = opened(f.path, os.O_RDONLY)
    os.removexattr(fd, "user.drift")
    os.close(fd)


def setfacl(f):
    entries = [(1, 6, 0xFFFFFFFF), (2, 6, 1), (4, 4, 0xFFFFFFFF), (16, 6, 0xFFFFFFFF), (32, 0, 0xFFFFFFFF)]
    value = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
    os.setxattr(f.path, "system.posix_acl_access", value)


def setcap(f):
    os.setxattr(f.path, "security.capability", struct.pack("<IIIII", 0x02000001, 1 << 13, 0, 0, 0))


# ---- Names ----------------------------------------------------------------------------------------------------------------


def rename_over(f):
    new = f.twin("new")
    f.now()
    os.rename(new, f.path)


def rename_away(f):
    os.rename(f.path, f.spare("away"))


def unlink(f):
    os.unlink(f.path)


def unlink_and_create(f):
    os.unlink(f.path)
    fd = os.open(f.path, os.O_WRONLY | os.O_CREAT, 0o640)
    os.write(fd, OTHER)
    os.fchmod(fd, 0o640)
    os.close(fd)


def exchange_file(f):
    other = f.twin("other")
    f.now()
    rename_exchange(other, f.path)


def exchange_parent(f):
    other = f.twin_parent("other")
    f.now()
    rename_exchange(other, f.parent)


def exchange_grandparent(f):
    other = f.twin_grand("other")
    f.now()
    rename_exchange(other, f.grand)


def replace_grandparent(f):
    other = f.twin_grand("other")
    f.now()
    os.rename(f.grand, f.spare("away"))
    os.rename(other, f.grand)


def link_ancestor(f):
    """A directory on the way becomes a link to another tree."""
    other = f.twin_grand("other")
    os.symlink(other, f.spare("link"))
    f.now()
    rename_exchange(f.spare("link"), f.grand)


def swap_link(f):
    """A link that is declared to be on the way leads to another tree."""
    os.symlink(os.path.basename(f.twin_grand("other")), f.spare("link"))
    f.now()
    os.rename(f.spare("link"), f.grand)


def data_swap(f):
    """As a kubelet does it: a new link over `..data`."""
    os.symlink("..v2", f.parent + "/..data_tmp")
    f.now()
    os.rename(f.parent + "/..data_tmp", f.path)


def unnamed_then_linked(f):
    fd = os.open(f.parent, os.O_TMPFILE | os.O_WRONLY, 0o640)
    os.write(fd, OTHER)
    os.fchmod(fd, 0o640)
    f.now()
    os.unlink(f.path)
    number = {"x86_64": 265, "aarch64": 37}[os.uname().machine]
    call(number, CWD, os.fsencode(f"/proc/self/fd/{fd}"), CWD, os.fsencode(f.path), 0x400)
    os.close(fd)


def symlink_in_place(f):
    other = f.twin("other")
    f.now()
    os.unlink(f.path)
    os.symlink(other, f.path)


def fifo_in_place(f):
    os.unlink(f.path)
    os.mkfifo(f.path)


def directory_in_place(f):
    os.unlink(f.path)
    os.mkdir(f.path)


def write_hard_link(f):
    os.link(f.path, f.spare("hard"))
    f.now()
    fd = opened(f.spare("hard"))
    os.write(fd, OTHER)
    os.close(fd)


def relative_path(f):
    os.chdir(f.grand)
    f.now()
    fd = opened("./p/../p/./f")
    os.write(fd, OTHER)
    os.close(fd)
    os.chdir("/")


def bare_name(f):
    new = f.twin("new")
    os.chdir(f.parent)
    f.now()
    os.rename(new, "f")
    os.chdir("/")


def long_path(f):
    """As long as the kernel takes it, and longer than what is looked at of it."""
    os.chdir(f.parent)
    f.now()
    os.truncate("./" * 2040 + "f", 100)
    os.chdir("/")


def flipped_path(f):
    """Another thread changes the path in memory while the call reads it: what is opened is known to the kernel alone."""
    other = f.twin("other")
    texts = [os.fsencode(path).ljust(len(f.path) + 1, b"\0") for path in (other, f.path)]
    buffer = ctypes.create_string_buffer(texts[0], len(texts[0]))
    is_over = threading.Event()

    def flip():
        while not is_over.is_set():
            for text in texts:
                ctypes.memmove(buffer, text, len(text))

    flipper = threading.Thread(target=flip)
    flipper.start()
    own, opened_own = os.stat(f.path).st_ino, 0
    f.now()
    try:
        for _ in range(10_000):
            fd = LIBC.open(buffer, os.O_WRONLY | os.O_CLOEXEC)
            # A path that is half of each is nobody's.
            if fd >= 0:
                os.write(fd, OTHER)
                opened_own += os.fstat(fd).st_ino == own
                os.close(fd)
            if opened_own == 5:
                break
        f.over()
    finally:
        is_over.set()
        flipper.join()
    assert opened_own == 5


def unread_path(f):
    """The paths are in a page of a file that this process has not touched: whoever reads them before the kernel does finds nothing."""
    paths = [os.fsencode(f.twin("new")), os.fsencode(f.path)]
    with open(f.spare("paths"), "wb") as file:
        for path in paths:
            file.write(path.ljust(4096, b"\0"))
    fd = opened(f.spare("paths"), os.O_RDONLY)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    place = LIBC.mmap(None, ctypes.c_size_t(8192), 1, 2, fd, ctypes.c_long(0))
    os.close(fd)
    f.now()
    check(LIBC.rename(ctypes.c_void_p(place), ctypes.c_void_p(place + 4096)))
    f.over()
    LIBC.munmap(ctypes.c_void_p(place), ctypes.c_size_t(8192))


def chrooted(f):
    def work():
        os.chroot(f.grand)
        os.chdir("/p")
        os.rename("/p/f", "/p/g")

    f.pids = [apart(work)]


# ---- Descriptors ----------------------------------------------------------------------------------------------------------


def passed_over_a_socket(f):
    """Opened by one process, written by another."""
    here, there = socket.socketpair()

    def opener():
        fd = opened(f.path)
        socket.send_fds(there, [b"x"], [fd])

    first = apart(opener)
    _, fds, _, _ = socket.recv_fds(here, 1, 1)
    f.now()
    written(fds[0])
    os.close(fds[0])
    here.close()
    there.close()
    del first


def opened_again(f):
    """A descriptor that may only read, opened to write through /proc."""
    first = os.open(f.path, os.O_PATH)
    fd = os.open(f"/proc/self/fd/{first}", os.O_WRONLY)
    os.write(fd, OTHER)
    os.close(fd)
    os.close(first)


def duplicated(f):
    fd = opened(f.path)
    other = os.dup(fd)
    os.close(fd)
    os.write(other, OTHER)
    os.close(other)


def inherited(f):
    """Opened here, written by a child that ends without closing."""
    fd = os.open(f.path, os.O_WRONLY)
    f.pids = [apart(lambda: os.write(fd, OTHER)), os.getpid()]
    os.close(fd)


def opened_before(f):
    """Before the agent started; closed after the change."""
    fd = opened(f.path)
    yield
    f.now()
    written(fd)
    os.close(fd)


def opened_before_and_kept(f):
    fd = opened(f.path)
    yield
    f.now()
    written(fd)
    f.over()
    yield 2.5
    os.close(fd)


def mapped_before(f):
    mapping = mapped(f)
    yield
    f.now()
    mapping[:] = OTHER
    f.over()
    yield 2.5
    mapping.close()


def dirtied_before(f):
    """A mapping whose pages were dirty when the agent started, with what is declared."""
    mapping = mapped(f)
    mapping[:] = DECLARED
    yield
    f.now()
    mapping[:] = OTHER
    f.over()
    yield 2.5
    mapping.close()


def write_and_revert(f):
    """Back as it was within a millisecond: nothing drifts in the end."""
    fd = opened(f.path)
    written(fd)
    written(fd, DECLARED)
    os.close(fd)


# ---- Mounts and namespaces ------------------------------------------------------------------------------------------------


def mount(source, place, kind, flags, options=None):
    encoded = [None if text is None else os.fsencode(text) for text in (source, place, kind)]
    check(LIBC.mount(*encoded, ctypes.c_ulong(flags), None if options is None else os.fsencode(options)))


BIND = 4096
APART = 0x20000


def bind_over_file(f):
    other = f.twin("other")
    f.now()
    mount(other, f.path, None, BIND)


def bind_over_parent(f):
    other = f.twin_parent("other")
    f.now()
    mount(other, f.parent, None, BIND)


def bind_twin_over_parent(f):
    """What is mounted there holds what is declared."""
    os.mkdir(f.spare("other"))
    f.twin("other/f", DECLARED)
    f.now()
    mount(f.spare("other"), f.parent, None, BIND)


def tmpfs_over_parent(f):
    mount("none", f.parent, "tmpfs", 0)


def tmpfs_over_grandparent(f):
    mount("none", f.grand, "tmpfs", 0)


def overlay_over_parent(f):
    layers = f.spare("layers")
    os.mkdir(layers)
    mount("none", layers, "tmpfs", 0)
    for name in ("lower", "upper", "work"):
        os.mkdir(f"{layers}/{name}")
    f.now()
    mount("none", f.parent, "overlay", 0, f"lowerdir={layers}/lower,upperdir={layers}/upper,workdir={layers}/work")


def moved_mount(f):
    """By the newer calls: open_tree and move_mount."""
    other = f.twin_parent("other")
    f.now()
    fd = call(428, CWD, os.fsencode(other), 1)
    call(429, fd, b"", CWD, os.fsencode(f.parent), 4)
    os.close(fd)


def mounted_and_taken_away(f):
    """Nothing is mounted there in the end."""
    mount("none", f.parent, "tmpfs", 0)
    check(LIBC.umount2(os.fsencode(f.parent), 2))


def other_namespace(f):
    """Written by another name, in a mount namespace that has it elsewhere."""

    def work():
        check(LIBC.unshare(APART))
        mount(None, "/", None, 0x4000 | 0x40000)
        os.mkdir(f.spare("elsewhere"))
        mount(f.parent, f.spare("elsewhere"), None, BIND)
        fd = os.open(f.spare("elsewhere") + "/f", os.O_WRONLY)
        os.write(fd, OTHER)
        os.close(fd)

    f.pids = [apart(work)]


def hidden_in_other_namespace(f):
    """Another file of this path, in a mount namespace that is nobody's: nothing drifts."""

    def work():
        check(LIBC.unshare(APART))
        mount(None, "/", None, 0x4000 | 0x40000)
        mount("none", f.parent, "tmpfs", 0)
        with open(f.path, "wb") as file:
            file.write(OTHER)

    f.pids = [apart(work)]


# ---- Together -------------------------------------------------------------------------------------------------------------


def play(technique, folders):
    folders = [Folder(folder) for folder in folders]
    work = globals()[technique]
    parts = {}
    if inspect.isgeneratorfunction(work):
        parts = {f: work(f) for f in folders}
    before = technique.endswith("_before") or "_before_" in technique
    if before:
        for part in parts.values():
            next(part)
    print("ready", flush=True)
    sys.stdin.readline()
    for f in folders:
        f.now()
        if f not in parts:
            work(f)
            f.over()
    while parts:
        pause = 0
        for f, part in list(parts.items()):
            try:
                pause = max(pause, next(part) or 0)
            except StopIteration:
                if not f.ended:
                    f.over()
                del parts[f]
        time.sleep(pause)
    for f in folders:
        print(json.dumps({"folder": f.folder, "began": f.began, "ended": f.ended, "pids": f.pids}), flush=True)


play(sys.argv[1], sys.argv[2:])
