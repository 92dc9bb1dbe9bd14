"""The error types. Every message says what was passed, what was expected, and what to do."""


class ItergpError(Exception):
    """Base class of every error that this library raises on purpose."""


class InputError(ItergpError, ValueError):
    """An argument is invalid; the message names it."""


class KernelError(ItergpError, ValueError):
    """A kernel returned something invalid: NaN, a wrong shape, an indefinite matrix."""


class PolicyError(ItergpError, ValueError):
    """A policy returned something that is not a valid block of actions."""


class MemoryLimitError(ItergpError, MemoryError):
    """The requested work does not fit in the available memory; the message has both numbers."""


class ForkError(ItergpError, RuntimeError):
    """A forked process would hang, because its parent has started JAX; the message says what to do."""


class ClusterError(ItergpError, RuntimeError):
    """A cluster cannot be reached, has no workers or unlike ones, or was lost; the message says which."""


class StorageError(ItergpError, OSError):
    """A file is damaged, not from itergp, of a later format, of another fit, unreadable or not writable."""


class PrecisionWarning(UserWarning):
    """Rounding exceeded its bound somewhere; the result was corrected, and the message says how."""


class InterruptedWarning(UserWarning):
    """A run ended early because of an error outside the method (callback, memory); completed work is kept."""


class LearningWarning(UserWarning):
    """The budget ended learning early: hyper-parameters are still at, or close to, their starting values."""


class StorageWarning(UserWarning):
    """A checkpoint could not be written (the last one is kept), or lacks files (the fit starts over)."""
