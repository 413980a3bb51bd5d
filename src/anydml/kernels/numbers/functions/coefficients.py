"""Polynomials of the elementary functions with proven bounds.

Made by tools/approximations.py (`make approximations`): change that, not this file.
"""

from anydml.kernels.numbers.functions.polynomials import Polynomial, Quotient, floats

EXP = Polynomial(  # degree 10, proven to 2^-50.30
    "e^x",
    -0.3466,
    0.3466,
    0.0,
    7.216449660063518e-16,
    2,
    floats(
        "0x1.0000000000000p+0 0x1.000000000001dp+0 0x1.ffffffffffe16p-2 0x1.555555554bbdap-3"
        " 0x1.55555555935cap-5 0x1.1111112d4f7cdp-7 0x1.6c16c0c06296ep-10 0x1.a0197a3c7c8f1p-13"
        " 0x1.a01b6d647a877p-16 0x1.72f9974983d54p-19 0x1.27276099ef14ep-22"
    ),
)
EXP_NEAR = Polynomial(  # degree 5, proven to 2^-47.60
    "e^x",
    -0.02168,
    0.02168,
    0.0,
    4.697631172945194e-15,
    1,
    floats(
        "0x1.0000000000014p+0 0x1.fffffffffff53p-1 0x1.fffffffd0909dp-2 0x1.5555555a2bacfp-3"
        " 0x1.5557630a33878p-5 0x1.110fe4b19e7c0p-7"
    ),
)
EXPM1 = Polynomial(  # degree 9, proven to 2^-49.10
    "(e^x - 1) / x",
    -0.3466,
    0.3466,
    0.0,
    1.6601303665098044e-15,
    2,
    floats(
        "0x1.0000000000005p+0 0x1.fffffffffffb0p-2 0x1.5555555550e2dp-3 0x1.5555555565bfcp-5"
        " 0x1.11111123a4fc2p-7 0x1.6c16c1355d277p-10 0x1.a019951d2eb1ap-13 0x1.a01a73913a654p-16"
        " 0x1.72e0b14489113p-19 0x1.27e4f45707fb7p-22"
    ),
)
LOG = Polynomial(  # degree 6, proven to 2^-50.56
    "log((1 + s) / (1 - s)) / s of s^2",
    0,
    0.02944656,
    8.881784197001252e-16,
    6.041174505089231e-16,
    2,
    floats(
        "0x1.0000000000001p+1 0x1.5555555552d00p-1 0x1.999999a445445p-2 0x1.249240aee4952p-2"
        " 0x1.c722d1fc39879p-3 0x1.7322833829407p-3 0x1.58dd036a0d074p-3"
    ),
)
LOG_WIDE = Polynomial(  # degree 8, proven to 2^-48.43
    "log((1 + s) / (1 - s)) / s of s^2",
    0,
    0.11111555560000001,
    3.552713678800501e-15,
    2.643718577388654e-15,
    2,
    floats(
        "0x1.0000000000008p+1 0x1.555555554a65cp-1 0x1.999999adeecc1p-2 0x1.249241e170bf2p-2"
        " 0x1.c71f08faf27a2p-3 0x1.741af85cde4b1p-3 0x1.3eea7c0228751p-3 0x1.e0c3ad0586ed3p-4"
        " 0x1.80839aecf7dfbp-3"
    ),
)
LOG2_TAIL = Polynomial(  # degree 7, proven to 2^-51.60
    "(log2((1 + s) / (1 - s)) - 2 s / log 2) / s^3 of s^2",
    0,
    0.02944656,
    8.881784197001252e-16,
    2.933851078745775e-16,
    2,
    floats(
        "0x1.ec709dc3a03fdp-1 0x1.2776c50ef9c71p-1 0x1.a61762a786172p-2 0x1.484b1401e9b33p-2"
        " 0x1.0c9a6eb6aef4cp-2 0x1.c69ba61d0f1c5p-3 0x1.880abbd196d28p-3 0x1.82b006c4ffaf7p-3"
    ),
)
LOG2_NEAR = Polynomial(  # degree 7, proven to 2^-45.11
    "log2(1 + x) / x",
    -0.0335,
    0.0335,
    0.0,
    2.6395552410463097e-14,
    1,
    floats(
        "0x1.71547652b82f5p+0 -0x1.71547652b82bcp-1 0x1.ec709dc499daap-2 -0x1.71547654479f3p-2"
        " 0x1.2776b417ed494p-2 -0x1.ec7075b862818p-3 0x1.a6d443d198509p-3 -0x1.72115d73caad6p-3"
    ),
)
LOG2_NEAR_EIGHTHS = Polynomial(  # degree 8, proven to 2^-45.05
    "log2(1 + x) / x",
    -0.06251,
    0.06251,
    0.0,
    2.7533531010703882e-14,
    1,
    floats(
        "0x1.71547652b82ffp+0 -0x1.71547652b5915p-1 0x1.ec709dc393b58p-2 -0x1.715476988b7e2p-2"
        " 0x1.2776c574e1af3p-2 -0x1.ec6ea78769c77p-3 0x1.a6151fd2b1778p-3 -0x1.73f0cd83514eep-3"
        " 0x1.4ae79a999dbfdp-3"
    ),
)
EXP2_NEAR = Polynomial(  # degree 4, proven to 2^-38.54
    "2^x",
    -0.03126,
    0.03126,
    0.0,
    2.497557716196752e-12,
    1,
    floats("0x1.ffffffffffe48p-1 0x1.62e42fec38103p-1 0x1.ebfbe003b340cp-3 0x1.c6b3f80672929p-5 0x1.3b290dac635d7p-7"),
)
EXP2_NEAR_EIGHTHS = Polynomial(  # degree 5, proven to 2^-41.65
    "2^x",
    -0.06251,
    0.06251,
    0.0,
    2.893241202173158e-13,
    1,
    floats(
        "0x1.000000000050cp+0 0x1.62e42fefa1c60p-1 0x1.ebfbdfcabb22fp-3 0x1.c6b08dd68bd5bp-5"
        " 0x1.3b3249b5f0094p-7 0x1.5d8208c5e5733p-10"
    ),
)
EXP2 = Polynomial(  # degree 10, proven to 2^-49.86
    "2^x",
    -0.5001,
    0.5001,
    0.0,
    9.75781955236954e-16,
    4,
    floats(
        "0x1.0000000000000p+0 0x1.62e42fefa3a18p-1 0x1.ebfbdff82c3b7p-3 0x1.c6b08d703d419p-5"
        " 0x1.3b2ab6fbde3bfp-7 0x1.5d87fe9cd4624p-10 0x1.4309125ff7b8dp-13 0x1.ffcb55bcdfc96p-17"
        " 0x1.62c15883801b6p-20 0x1.b6743a3762ab9p-24 0x1.e39894f5683fep-28"
    ),
)
SIN = Polynomial(  # degree 7, proven to 2^-49.57
    "sin(x) / x of x^2",
    0,
    2.46772681,
    1.1102230246251565e-15,
    1.1943571132100317e-15,
    1,
    floats(
        "0x1.fffffffffffffp-1 -0x1.5555555555458p-3 0x1.1111111108fa9p-7 -0x1.a01a0199bf391p-13"
        " 0x1.71de37ddf5501p-19 -0x1.ae634afc99bc4p-26 0x1.60e551537fc7fp-33 -0x1.9eedf32a42955p-41"
    ),
)
TAN = Polynomial(  # degree 12, proven to 2^-47.76
    "tan(x) / x of x^2",
    0,
    0.61701025,
    1.1102230246251565e-15,
    4.201500258815827e-15,
    2,
    floats(
        "0x1.000000000000ap+0 0x1.555555554ff1fp-2 0x1.11111114dd061p-3 0x1.ba1b9fa1a5c32p-5"
        " 0x1.664f952959f79p-6 0x1.2267b7e2ddafbp-7 0x1.d7876e4680e4fp-9 0x1.772e3cc6936e8p-10"
        " 0x1.5d98e5a11f1cbp-11 0x1.45049901fea03p-14 0x1.50057a468b68cp-12 -0x1.39ee1c06a148ap-13"
        " 0x1.95ece3ff62336p-14"
    ),
)
ASIN = Polynomial(  # degree 11, proven to 2^-50.68
    "asin(x) / x of x^2",
    0,
    0.25,
    3.3306690738754696e-16,
    5.529431079676073e-16,
    2,
    floats(
        "0x1.ffffffffffffep-1 0x1.55555555578e8p-3 0x1.3333332ff22a0p-4 0x1.6db6dd4a726f4p-5"
        " 0x1.f1c68fd988bc5p-6 0x1.6e97d2ad93ca9p-6 0x1.1ba446b438edcp-6 0x1.d5c40f36f679bp-7"
        " 0x1.315fdff478b10p-7 0x1.2de956af8ef66p-6 -0x1.889fc63b33633p-7 0x1.03cf08f0873ffp-5"
    ),
)
ATAN = Polynomial(  # degree 9, proven to 2^-49.35
    "atan(x) / x of x^2",
    0,
    0.1715782084,
    8.881784197001252e-16,
    1.3981871216373065e-15,
    2,
    floats(
        "0x1.ffffffffffff8p-1 -0x1.5555555550951p-2 0x1.9999999261aadp-3 -0x1.24924702d0b95p-3"
        " 0x1.c71bcd841da76p-4 -0x1.744ed12a8646ap-4 0x1.3a50b2eeecaafp-4 -0x1.0a86ccd38b15bp-4"
        " 0x1.9be2c8e0d85e9p-5 -0x1.9f7349e934adbp-6"
    ),
)
ERF = Polynomial(  # degree 7, proven to 2^-50.09
    "erf(x) / x of x^2",
    0,
    0.25,
    1.1102230246251565e-16,
    8.322335875998732e-16,
    1,
    floats(
        "0x1.20dd750429b6ap+0 -0x1.812746b036058p-2 0x1.ce2f219e2c3f3p-4 -0x1.b82ce207db416p-6"
        " 0x1.565b8b9525b96p-8 -0x1.c01c32a8730b1p-11 0x1.f70864fea4f01p-14 -0x1.c0a07f91d91e7p-17"
    ),
)
ERFC = Quotient(  # degree 8 and 9, proven to 2^-47.02
    "e^(z^2) erfc(z)",
    0.0,
    26.64,
    7.008282842946301e-15,
    2,
    floats(
        "0x1.0000000000005p+0 0x1.03bb4da347f91p+1 0x1.03fd327419c30p+1 0x1.46ece79fd6230p+0"
        " 0x1.178d830c822fep-1 0x1.4bdefd9e9e8e3p-3 0x1.0ba5a70246311p-5 0x1.0e318facdad5dp-8"
        " 0x1.09c2c938038d8p-12"
    ),
    floats(
        "0x1.0000000000000p+0 0x1.942a08255cfffp+1 0x1.26050e5275cfap+2 0x1.038f278ac2b1ap+2"
        " 0x1.33a50ba69b7fdp+1 0x1.fe343fcbcaa27p-1 0x1.29dac1fbb18e3p-2 0x1.dc3b6ce7fba10p-5"
        " 0x1.dee7daef2a4e7p-8 0x1.d70c84b97e233p-12"
    ),
)
