"""Headers of arrays in files, which numpy gives to Python's parser: one thread at a time.

In Python 3.11 the parser counts its depth once for all threads. Two of them at once can end in a SystemError.
"""

from threading import RLock

one_at_a_time = RLock()
