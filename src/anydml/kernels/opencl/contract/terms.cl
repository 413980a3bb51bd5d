/* The numbers of a contraction: rows, columns, the columns' two inner sizes, then bytes from row to row of A, along the columns'
   three dimensions of B, the channels and positions of the terms, bytes from channel to channel of A and of B, the range of
   columns in each dimension for which all terms count, and for each stream the bytes along rows and the columns' dimensions. */
enum { N_ROWS, N_COLUMNS, N_Y, N_X, N_A_ROW, N_B_Z, N_B_Y, N_B_X, N_CHANNELS, N_POSITIONS, N_A_TERM, N_B_TERM, N_INSIDE,
       N_STREAMS = N_INSIDE + 6 };
enum { P_B, P_A, P_RANGES }; /* an entry of the table of positions: offsets, and the ranges of columns that count */

/* the offset of a term in A */
long a_term(constant long *n, global const long *table, int k) {
#if ONE_POSITION
  return table[P_A] + k * n[N_A_TERM];
#else
  int channels = (int)n[N_CHANNELS], p = k / channels;
  return table[8 * p + P_A] + (k - p * channels) * n[N_A_TERM];
#endif
}

/* the offset of a term in B, beside that of a column; -1 if it does not count for the column */
long b_term(constant long *n, global const long *table, int k, int z, int y, int x, bool *counts) {
#if ONE_POSITION
  global const long *at = table;
  int channel = k;
#else
  int channels = (int)n[N_CHANNELS], p = k / channels, channel = k - p * channels;
  global const long *at = table + 8 * p;
#endif
#if PADDED
  *counts = z >= at[2] && z < at[3] && y >= at[4] && y < at[5] && x >= at[6] && x < at[7];
#else
  *counts = true;
#endif
  return at[P_B] + channel * n[N_B_TERM];
}

void mark(global uint *bitmap, long number) { atomic_or((volatile global uint *)bitmap + (number >> 5), 1u << (uint)(number & 31)); }
