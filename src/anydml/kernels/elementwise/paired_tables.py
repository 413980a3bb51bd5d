"""Tables and polynomials of functions in pairs of float32, by their bits or as hexadecimal floats.

Made by tools/paired.py (`make approximations`): change that, not this file.
"""

EXP_HEADS = (
    1065353216,
    1065063874,
    1064843248,
    1064697559,
    1064633587,
    1064658730,
    1064781053,
    1065009351,
)
EXP_TAILS = (
    float.fromhex("0x0.0p+0"),
    float.fromhex("-0x1.9c0c220000000p-27"),
    float.fromhex("0x1.1250020000000p-25"),
    float.fromhex("-0x1.0a35500000000p-25"),
    float.fromhex("0x1.26055c0000000p-26"),
    float.fromhex("0x1.67a1ca0000000p-28"),
    float.fromhex("-0x1.f9c3040000000p-27"),
    float.fromhex("-0x1.a5217c0000000p-28"),
)
EXP_EIGHTHS = float.fromhex("0x1.7154760000000p+3")
EXP_STEP = float.fromhex("0x1.62e4300000000p-4")
EXP_STEP_TAIL = float.fromhex("-0x1.05c6100000000p-32")
EXP = (
    float.fromhex("0x1.5555560000000p-3"),
    float.fromhex("0x1.555a420000000p-5"),
    float.fromhex("0x1.10fb440000000p-7"),
)
TANH = (
    float.fromhex("-0x1.5555560000000p-2"),
    float.fromhex("0x1.1112c60000000p-3"),
    float.fromhex("-0x1.bcbe5c0000000p-5"),
    float.fromhex("0x1.0345ce0000000p-5"),
)
