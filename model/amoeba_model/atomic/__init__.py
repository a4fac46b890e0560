"""The golden arithmetic of the whole atomic matrix: what every (operation, datatype) does to memory bytes.

The pieces, from the bottom: :mod:`formats` describes the floating-point formats, :mod:`limbs` and
:mod:`softfloat` compute with integers alone, :mod:`integers` and :mod:`floats` turn that into sums and
products of memory, :mod:`matrix` says which cells exist, :mod:`execute` executes them, as do :mod:`element` and
:mod:`elements` with less ado, :mod:`vectors` replays what libfabric itself did.
"""

from amoeba_model.atomic.element import execute_element
from amoeba_model.atomic.elements import execute_elements
from amoeba_model.atomic.execute import execute
from amoeba_model.atomic.matrix import Cell, cells, is_extension, is_valid

__all__ = ["Cell", "cells", "execute", "execute_element", "execute_elements", "is_extension", "is_valid"]
