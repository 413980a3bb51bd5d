/* Sums of an undecided element: a head, its rounding errors, and a bound of what is lost. */
double two(double a, double b, double *error) {
  double s = a + b, t = s - a;
  *error = (a - (s - t)) + (b - t);
  return s;
}

void add(double *v, double x) {
  v[0] = two(v[0], x, &x);
  v[1] = two(v[1], x, &x);
  v[2] += fabs(x);
}

/* adds a number, head + tail within `lost`, times a weight: the roundings of the last two products have much slack */
void add_scaled(double *v, double head, double tail, double lost, double weight) {
  double product = head * weight, rest = fma(head, weight, -product), more = tail * weight;
  v[2] += (fabs(rest) + fabs(more)) * 0x1p-50 + lost * fabs(weight);
  add(v, product);
  double x = rest + more;
  v[1] = two(v[1], x, &x);
  v[2] += fabs(x);
}

/* the sum as a pair; the rounding error beside an infinity is NaN, and 0 added to the head would change a zero's sign */
void finish(double *v) {
  bool finite = fabs(v[0]) < INFINITY;
  double tail, head = two(v[0], v[1], &tail);
  v[0] = v[1] != 0.0 && finite ? head : v[0];
  v[1] = finite ? tail : 0.0;
  v[2] = finite ? v[2] * SLACK : 0.0;
}
