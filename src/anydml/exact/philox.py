"""Philox 4x32-10 (Salmon et al., 2011): the counter-based generator of RANDOM_GENERATOR, in integers."""

MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
INCREMENTS = 0x9E3779B9, 0xBB67AE85
WORD = 2**32 - 1


def philox(counter: int, key: int) -> tuple[int, int, int, int]:
    """Four random 32-bit words from a counter modulo 2^128 and a 64-bit key, least significant words first."""
    c0, c1, c2, c3 = (counter >> bits & WORD for bits in (0, 32, 64, 96))
    k0, k1 = key & WORD, key >> 32
    for _ in range(10):
        p, q = MULTIPLIERS[0] * c0, MULTIPLIERS[1] * c2
        c0, c1, c2, c3 = q >> 32 ^ c1 ^ k0, q & WORD, p >> 32 ^ c3 ^ k1, p & WORD
        k0, k1 = k0 + INCREMENTS[0] & WORD, k1 + INCREMENTS[1] & WORD
    return c0, c1, c2, c3
