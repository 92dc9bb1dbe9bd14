"""The few error types. Every message says what came, what was expected, and what to do."""


class ItergpError(Exception):
    """Base of every error that this library raises on purpose."""


class InputError(ItergpError, ValueError):
    """An argument is not what it must be; the message names it."""


class KernelError(ItergpError, ValueError):
    """A kernel returned something that no kernel returns: NaN, a wrong shape, an indefinite matrix."""


class PolicyError(ItergpError, ValueError):
    """A policy returned something that is not a block of actions."""


class MemoryLimitError(ItergpError, MemoryError):
    """The work asked for does not fit the memory that is available; the message has both numbers."""


class ForkError(ItergpError, RuntimeError):
    """A forked process would wait for ever for what only its parent has; the message says how to start it
    instead."""


class StorageError(ItergpError, OSError):
    """A file is damaged, foreign, of a later format or of another fit, or cannot be read or written; the
    message says which."""


class PrecisionWarning(UserWarning):
    """Rounding was larger than its bound somewhere; the result was made safe, and this says how."""


class InterruptedWarning(UserWarning):
    """A run ended early because of an error outside the method (a callback, memory); what was computed is
    kept."""


class LearningWarning(UserWarning):
    """The budget ended learning where it had hardly begun: hyper-parameters are the starting values, or
    close to them."""


class StorageWarning(UserWarning):
    """A checkpoint could not be written: the fit goes on, and the last one stays. Or it lacks files: the
    fit starts anew."""
