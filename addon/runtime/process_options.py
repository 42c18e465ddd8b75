"""Options of this process in the Linux kernel."""


def set_process_option(option: int, value: int) -> bool:
    """Set an option of prctl(2). Return False where the system does not have it."""
    try:
        from ctypes import CDLL

        return bool(CDLL(None).prctl(option, value, 0, 0, 0) == 0)
    except (AttributeError, ImportError, MemoryError, OSError):
        return False
