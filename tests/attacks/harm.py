"""Attacks on the machine, on the class and on the next submission."""

from tests.attacks.attacks import attack, both_do


@attack("keyboard interrupt", "error")
def _():
    return both_do("raise KeyboardInterrupt")


@attack("system exit", "error")
def _():
    return both_do("raise SystemExit(0)")


@attack("exit and quit in a cell", "fail", "error")
def _():
    return "exit()\nquit()\n"


@attack("os._exit in the answer", "crash")
def _():
    return both_do("os._exit(0)")


@attack("an exit code that claims a memory limit", "crash")
def _():
    return both_do("os._exit(201)")


@attack("an exit code that claims a broken sandbox", "crash")
def _():
    return both_do("os._exit(203)")


@attack("the kernel killed by a signal", "crash")
def _():
    return both_do("os.kill(os.getpid(), signal.SIGKILL)")


@attack("a segmentation fault", "crash")
def _():
    return both_do("ctypes.string_at(0)")


@attack("every signal to the first process and to all")
def _():
    return """
for number in range(1, 65):
    for pid in (1, -1):
        if number in (signal.SIGKILL, signal.SIGSTOP, signal.SIGABRT) and pid == -1: continue
        try:
            if pid == -1: signal.signal(number, signal.SIG_IGN)
            os.kill(pid, number)
        except (OSError, ValueError): pass
"""


@attack("a process with a name that is no text", "fail", "error")
def _():
    return "ctypes.CDLL(None).prctl(15, b'\\xff\\xfe\\n) R 1', 0, 0, 0)\ntime.sleep(0.2)\n"


@attack("an endless loop", "timeout")
def _():
    return both_do("while True: pass")


@attack("an endless loop that swallows interrupts", "timeout")
def _():
    return both_do("while True:", "    try:", "        while True: pass", "    except BaseException: pass")


@attack("a cell that never ends")
def _():
    return "for number in (2, 15, 14): signal.signal(number, signal.SIG_IGN)\nwhile True: time.sleep(1)\n"


@attack("a thread that never ends", "fail", "error", "timeout")
def _():
    return "threading.Thread(target=lambda: [None for _ in iter(int, 1)], daemon=True).start()\n"


@attack("a fork bomb")
def _():
    return "for _ in range(9): os.fork()\n"


@attack("threads without end")
def _():
    return "for _ in range(10**5): threading.Thread(target=time.sleep, args=(99,), daemon=True).start()\n"


@attack("2 GB in one tensor", "memory")
def _():
    return both_do("return torch.ones(2**29)")


@attack("memory filled", "fail", "error", "memory")
def _():
    return "hold = []\nfor _ in range(10000): hold.append(bytearray(10**7))\n"


@attack("memory filled by children that hide their /proc files", "crash", "memory", "fail", "error")
def _():
    return """
def fill():
    for _ in range(8):
        if os.fork() == 0:
            ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
            hold = bytearray(b'x') * (800 * 2**20)
            time.sleep(60)
            os._exit(0)
    time.sleep(5)
""" + both_do("fill()", "return x * 0.1 + torch.zeros(x.shape)")


@attack("System V segments")
def _():
    return """
libc = ctypes.CDLL(None)
made = [libc.shmget(0, 2**30, 0o1600) for _ in range(100)]
if set(made) != {-1}: won()
"""


@attack("anonymous files")
def _():
    return "for n in range(1000):\n    os.write(os.memfd_create(str(n)), b'x' * 2**26)\n    won()\n"


@attack("the disk filled", "fail", "error")
def _():
    return """
for folder in ('/sandbox/work', '/sandbox/tmp', '/dev/shm'):
    for n in range(100):
        try: open(f'{folder}/{n}', 'wb').write(b'x' * 2**24)
        except OSError: break
"""


@attack("a file of a terabyte", "fail", "error", "crash")
def _():
    return "os.truncate(os.open('giant', os.O_CREAT | os.O_RDWR), 2**40)\n"


@attack("a hundred thousand files", "fail", "error")
def _():
    return "for n in range(10**5): open(f'/sandbox/work/f{n}', 'w').close()\n"


@attack("descriptors without end", "fail", "error")
def _():
    return "hold = [os.pipe() for _ in range(10**5)]\n"


@attack("20 MB in one line", "fail", "error")
def _():
    return "print('x' * 20_000_000)\n"


@attack("output without end", "fail", "error")
def _():
    return "t = time.time()\nwhile time.time() - t < 3: print('y' * 100_000)\n"


@attack("output past Python, on the descriptors", "fail", "error")
def _():
    return "for _ in range(1000):\n    os.write(1, b'x' * 10**5)\n    os.write(2, b'x' * 10**5)\n"


@attack("ptrace and the memory of other processes")
def _():
    return """
if ctypes.CDLL(None).ptrace(16, 1, 0, 0) != -1: won()
for pid in os.listdir('/proc'):
    if pid.isdigit() and int(pid) != os.getpid():
        try: open(f'/proc/{pid}/mem', 'rb+'); won()
        except OSError: pass
"""


@attack("new namespaces and mounts")
def _():
    return """
libc = ctypes.CDLL(None)
made = [libc.unshare(0x10000000), libc.unshare(0x20000), libc.mount(b'none', b'/sandbox/tmp', b'tmpfs', 0, None)]
made += [libc.umount2(b'/proc', 2), libc.chroot(b'/sandbox'), libc.setns(os.open('/proc/self/ns/pid', 0), 0)]
if set(made) != {-1}: won()
"""


@attack("the kernel's settings written")
def _():
    return """
for path in ('/proc/sys/kernel/core_pattern', '/proc/sysrq-trigger', '/proc/sys/vm/drop_caches',
             '/proc/1/oom_score_adj', '/proc/sys/user/max_user_namespaces', '/dev/sda', '/dev/mem', '/dev/kmsg'):
    try: open(path, 'w').write('1'); won()
    except OSError: pass
"""


@attack("the course's own code in the sandbox changed")
def _():
    return """
import autograder.codec
for path in (autograder.codec.__file__, torch.__file__, sys.executable):
    try: open(path, 'a').write('x'); won()
    except OSError: pass
"""


@attack("a call to the outside")
def _():
    return """
def reach(family, address):
    with socket.socket(family) as s:
        s.settimeout(1); s.connect(address)
for family, address in ((socket.AF_INET, ('127.0.0.1', 22)), (socket.AF_INET, ('8.8.8.8', 53)),
                        (socket.AF_INET6, ('::1', 22)), (socket.AF_UNIX, '\\0/tmp/.X11-unix/X0'),
                        (socket.AF_UNIX, '/run/docker.sock')):
    try: reach(family, address); won()
    except OSError: pass
"""


@attack("programs that stay", "fail", "error")
def _():
    return """
import subprocess
for _ in range(5): subprocess.Popen(['sleep', '1000'], start_new_session=True)
if os.fork() == 0:
    os.setsid()
    time.sleep(1000)
"""


@attack("torch broken for everybody", "error")
def _():
    return "torch.Tensor.__matmul__ = torch.Tensor.__mul__ = None\ntorch.zeros = torch.softmax = None\n"


@attack("the random state and the default dtype bent", "fail", "error")
def _():
    return "torch.manual_seed = lambda s: None\ntorch.set_default_dtype(torch.float64)\ntorch.set_grad_enabled(False)\n"


@attack("links to everywhere", "fail", "error")
def _():
    return "for n, path in enumerate(('/', '/etc', '/proc/1/root')): os.symlink(path, f'/sandbox/work/link{n}')\n"


@attack("an exit handler", "fail", "error")
def _():
    return "import atexit\natexit.register(lambda: time.sleep(10**6))\n"


@attack("the own process group stopped", "timeout")
def _():
    return both_do("os.kill(0, signal.SIGSTOP)", "return x")


@attack("the first process without its limits and its rank", "fail", "error")
def _():
    return """
import resource
for what in range(16):
    try: resource.prlimit(1, what, (0, 0))
    except (OSError, ValueError): pass
for bend in (lambda: os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0)),
             lambda: os.setpriority(os.PRIO_PROCESS, 1, 19), lambda: os.setpriority(os.PRIO_PGRP, 0, 19),
             lambda: os.setpriority(os.PRIO_USER, 0, 19)):
    try: bend()
    except OSError: pass
time.sleep(0.3)
"""


@attack("shared memory that no process seems to hold", "fail", "error")
def _():
    return """
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
zero = os.open('/dev/zero', os.O_RDWR)
for flags, file in ((0x21, -1), (0x23, -1), (0x40021, -1), (1, zero), (3, zero)):
    at = libc.mmap(None, ctypes.c_size_t(2**26), 3, flags, file, ctypes.c_long(0))
    if at not in (None, ctypes.c_void_p(-1).value): won()
"""


@attack("system calls of another architecture")
def _():
    return """
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
at = libc.mmap(None, 4096, 7, 0x22, -1, 0)
ctypes.memmove(at, b'\\xb8\\x14\\x00\\x00\\x00\\xcd\\x80\\xc3', 8)  # int 0x80: getpid of 32-bit Linux
if os.uname().machine == 'x86_64' and ctypes.CFUNCTYPE(ctypes.c_int)(at)() > 0: won()
"""


@attack("a timer that raises between calls")
def _():
    return """
class Alarm(BaseException): pass
def ring(*args): raise Alarm
signal.signal(signal.SIGALRM, ring)
signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
"""
