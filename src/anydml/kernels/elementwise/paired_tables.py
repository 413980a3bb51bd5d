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
    float.fromhex("0x1.1114c60000000p-3"),
    float.fromhex("-0x1.c32b5e0000000p-5"),
)
LOG_FIRST = 1060459862
LOG_FACTORS = (
    float.fromhex("0x1.6000000000000p+0"),
    float.fromhex("0x1.4000000000000p+0"),
    float.fromhex("0x1.2000000000000p+0"),
    float.fromhex("0x1.1000000000000p+0"),
    float.fromhex("0x1.0000000000000p+0"),
    float.fromhex("0x1.d000000000000p-1"),
    float.fromhex("0x1.a000000000000p-1"),
    float.fromhex("0x1.8000000000000p-1"),
)
LOG_HEADS = (
    float.fromhex("-0x1.4618000000000p-2"),
    float.fromhex("-0x1.c900000000000p-3"),
    float.fromhex("-0x1.e280000000000p-4"),
    float.fromhex("-0x1.f0c0000000000p-5"),
    float.fromhex("0x0.0p+0"),
    float.fromhex("0x1.9340000000000p-4"),
    float.fromhex("0x1.a940000000000p-3"),
    float.fromhex("0x1.2698000000000p-2"),
)
LOG_TAILS = (
    float.fromhex("-0x1.78438c0000000p-19"),
    float.fromhex("0x1.070cac0000000p-20"),
    float.fromhex("0x1.f123aa0000000p-17"),
    float.fromhex("0x1.cf3fee0000000p-17"),
    float.fromhex("0x0.0p+0"),
    float.fromhex("-0x1.43454e0000000p-17"),
    float.fromhex("-0x1.2c37520000000p-19"),
    float.fromhex("-0x1.deecb20000000p-18"),
)
LN2_HEAD = float.fromhex("0x1.62e4000000000p-1")
LN2_TAIL = float.fromhex("0x1.7f7d1c0000000p-20")
LOG = (
    float.fromhex("0x1.5555560000000p-2"),
    float.fromhex("-0x1.ffff700000000p-3"),
    float.fromhex("0x1.9995620000000p-3"),
    float.fromhex("-0x1.56e0bc0000000p-3"),
    float.fromhex("0x1.2862200000000p-3"),
)
