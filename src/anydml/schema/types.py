"""Sets of data types that the pages' tensor support tables use."""

from anydml.tensor import DataType

FLOATS = (DataType.FLOAT32, DataType.FLOAT16)
SIGNED = (DataType.INT32, DataType.INT16, DataType.INT8)
UNSIGNED = (DataType.UINT32, DataType.UINT16, DataType.UINT8)
SIXTY_FOUR = (DataType.INT64, DataType.UINT64)
EIGHT_BIT = (DataType.INT8, DataType.UINT8)
SIXTEEN_BIT = (DataType.INT16, DataType.UINT16)
TRUTHS = (DataType.UINT32, DataType.UINT8)
WORDS = (*FLOATS, DataType.INT32, DataType.UINT32)
EIGHT = (*FLOATS, *SIGNED, *UNSIGNED)
SIX = tuple(t for t in EIGHT if t not in EIGHT_BIT)
TEN = (*EIGHT, *SIXTY_FOUR)
ELEVEN = (DataType.FLOAT64, *TEN)
INDICES = (DataType.UINT32, DataType.INT32, DataType.UINT64, DataType.INT64)
