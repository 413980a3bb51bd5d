"""Tables and polynomials of functions in pairs of float32, by their bits or as hexadecimal floats.

Made by tools/paired.py (`make approximations`): change that, not this file.
"""

EXP8_HEADS = (
    1065353216,
    1065063874,
    1064843248,
    1064697559,
    1064633587,
    1064658730,
    1064781053,
    1065009351,
)
EXP8_TAILS = (
    float.fromhex("0x0.0p+0"),
    float.fromhex("-0x1.9c0c220000000p-27"),
    float.fromhex("0x1.1250020000000p-25"),
    float.fromhex("-0x1.0a35500000000p-25"),
    float.fromhex("0x1.26055c0000000p-26"),
    float.fromhex("0x1.67a1ca0000000p-28"),
    float.fromhex("-0x1.f9c3040000000p-27"),
    float.fromhex("-0x1.a5217c0000000p-28"),
)
EXP8_INVERSE = float.fromhex("0x1.7154760000000p+3")
EXP8_STEP = float.fromhex("0x1.62e4300000000p-4")
EXP8_STEP_TAIL = float.fromhex("-0x1.05c6100000000p-32")
EXP8_TERMS = (
    float.fromhex("0x1.5555560000000p-3"),
    float.fromhex("0x1.555a420000000p-5"),
    float.fromhex("0x1.10fb440000000p-7"),
)
EXP32_HEADS = (
    1065353216,
    1065274759,
    1065200323,
    1065129999,
    1065063874,
    1065002042,
    1064944595,
    1064891632,
    1064843248,
    1064799546,
    1064760626,
    1064726595,
    1064697559,
    1064673627,
    1064654911,
    1064641526,
    1064633587,
    1064631215,
    1064634532,
    1064643661,
    1064658730,
    1064679870,
    1064707212,
    1064740894,
    1064781053,
    1064827832,
    1064881375,
    1064941831,
    1065009351,
    1065084090,
    1065166205,
    1065255859,
)
EXP32_TAILS = (
    float.fromhex("0x0.0p+0"),
    float.fromhex("-0x1.9474140000000p-25"),
    float.fromhex("0x1.8d96d40000000p-25"),
    float.fromhex("-0x1.dda2fc0000000p-25"),
    float.fromhex("-0x1.9c0c220000000p-27"),
    float.fromhex("-0x1.a2fbb20000000p-25"),
    float.fromhex("0x1.9649040000000p-25"),
    float.fromhex("-0x1.2b0dbc0000000p-25"),
    float.fromhex("0x1.1250020000000p-25"),
    float.fromhex("-0x1.cde8ce0000000p-26"),
    float.fromhex("0x1.370be40000000p-25"),
    float.fromhex("0x1.336de20000000p-30"),
    float.fromhex("-0x1.0a35500000000p-25"),
    float.fromhex("-0x1.c541b40000000p-26"),
    float.fromhex("-0x1.00d8ac0000000p-27"),
    float.fromhex("-0x1.6cb2840000000p-25"),
    float.fromhex("0x1.26055c0000000p-26"),
    float.fromhex("0x1.8b2bb80000000p-26"),
    float.fromhex("-0x1.05cb440000000p-25"),
    float.fromhex("-0x1.1c21420000000p-26"),
    float.fromhex("0x1.67a1ca0000000p-28"),
    float.fromhex("-0x1.348e560000000p-25"),
    float.fromhex("0x1.a3b5e40000000p-28"),
    float.fromhex("-0x1.0b7ec80000000p-25"),
    float.fromhex("-0x1.f9c3040000000p-27"),
    float.fromhex("-0x1.e4c8860000000p-26"),
    float.fromhex("-0x1.6961b40000000p-28"),
    float.fromhex("-0x1.b5151e0000000p-28"),
    float.fromhex("-0x1.a5217c0000000p-28"),
    float.fromhex("-0x1.ab71320000000p-26"),
    float.fromhex("0x1.61428e0000000p-28"),
    float.fromhex("-0x1.2ad5f80000000p-27"),
)
EXP32_INVERSE = float.fromhex("0x1.7154760000000p+5")
EXP32_STEP = float.fromhex("0x1.62e4300000000p-6")
EXP32_STEP_TAIL = float.fromhex("-0x1.05c6100000000p-34")
EXP32_TERMS = (
    float.fromhex("0x1.5555c80000000p-3"),
    float.fromhex("0x1.5555a40000000p-5"),
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
    float.fromhex("-0x1.e270000000000p-4"),
    float.fromhex("-0x1.f0a0000000000p-5"),
    float.fromhex("0x0.0p+0"),
    float.fromhex("0x1.9338000000000p-4"),
    float.fromhex("0x1.a940000000000p-3"),
    float.fromhex("0x1.2696000000000p-2"),
)
LOG_TAILS = (
    float.fromhex("-0x1.78438c0000000p-19"),
    float.fromhex("0x1.070cac0000000p-20"),
    float.fromhex("-0x1.db8abc0000000p-22"),
    float.fromhex("-0x1.86008c0000000p-20"),
    float.fromhex("0x0.0p+0"),
    float.fromhex("-0x1.0d15360000000p-19"),
    float.fromhex("-0x1.2c37520000000p-19"),
    float.fromhex("0x1.089a6e0000000p-21"),
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
ERF_FAR = float.fromhex("0x1.f800000000000p+1")
ERF = (
    float.fromhex("0x1.6fc14a0975448p-2"),
    float.fromhex("-0x1.7b0284027a04dp-6"),
    float.fromhex("0x1.234d72000b912p-9"),
    float.fromhex("-0x1.ea1a6d6c88339p-13"),
    float.fromhex("0x1.a4b0987cdb3a5p-16"),
    float.fromhex("-0x1.63bdc1a138050p-19"),
    float.fromhex("0x1.21dfec63f14bcp-22"),
    float.fromhex("-0x1.c0e527a060cddp-26"),
    float.fromhex("0x1.479580402eff5p-29"),
    float.fromhex("-0x1.c12758adf4816p-33"),
    float.fromhex("0x1.213a331c19e9dp-36"),
    float.fromhex("-0x1.5be28685d41a6p-40"),
    float.fromhex("0x1.843c97f308f77p-44"),
    float.fromhex("-0x1.a3c126cdd4a86p-48"),
    float.fromhex("0x1.ca254140f3a2ep-52"),
    float.fromhex("-0x1.9bc959783f0a5p-56"),
    float.fromhex("0x1.d842f1a24bc95p-61"),
    float.fromhex("-0x1.fce1326ac3879p-65"),
    float.fromhex("0x1.e5bfeb80f2a03p-68"),
    float.fromhex("-0x1.48cdddcfbdf09p-72"),
)
GELU_FAR = float.fromhex("0x1.6800000000000p+2")
GELU = (
    float.fromhex("0x1.016e89d62beebp-3"),
    float.fromhex("-0x1.040d6d8655663p-8"),
    float.fromhex("0x1.88154a3f016b0p-13"),
    float.fromhex("-0x1.43fa4523eec9ap-17"),
    float.fromhex("0x1.11c2e38dae9c0p-21"),
    float.fromhex("-0x1.c8f66180bddf8p-26"),
    float.fromhex("0x1.706f66763fe16p-30"),
    float.fromhex("-0x1.1aea744709725p-34"),
    float.fromhex("0x1.9a4a1088cd766p-39"),
    float.fromhex("-0x1.17af52a23146ep-43"),
    float.fromhex("0x1.66252234ae217p-48"),
    float.fromhex("-0x1.af212dbeade77p-53"),
    float.fromhex("0x1.e5a9e2d9859cbp-58"),
    float.fromhex("-0x1.fe36953e391f8p-63"),
    float.fromhex("0x1.044b91b0fdba0p-67"),
    float.fromhex("-0x1.093280f33fc07p-72"),
    float.fromhex("0x1.bdd1595ccebcbp-78"),
    float.fromhex("-0x1.ffd9a9769978dp-84"),
    float.fromhex("0x1.106134cbbf011p-88"),
    float.fromhex("-0x1.c46d86415b4d9p-93"),
    float.fromhex("0x1.17df6f1baec20p-98"),
)
