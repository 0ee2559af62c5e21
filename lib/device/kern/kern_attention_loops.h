/*
 * kern_attention_loops.h - the loops of kern_attention.c for one type: REAL, and NAME(x), x with the type's name.
 *
 * Included once for each type, so it has no guard.
 */

/* As many elements as the widest processor takes at once. */
#define WIDE (64 / sizeof(REAL))
typedef REAL NAME(wide) __attribute__((vector_size(64), aligned(sizeof(REAL)), may_alias));

/* A matrix whose rows are `row` elements apart, its columns `col`. */
struct NAME(matrix) {
	REAL *at;
	size_t row, col;
};

/* One head of one sample. */
struct NAME(head) {
	struct NAME(matrix) q, k, v, y, dy, dq, dk, dv; /* [t, dim] */
	REAL *lse;					/* [t] */
	REAL *turned, *turned_v, *score, *slope; /* [dim, span] two times, [t, span] two times */
	REAL *most, *kept, *due, *tail;		 /* [t] three times, [2, longest, WIDE] */
	size_t t, dim, block, span,
	    longest; /* span: block, in whole WIDE; longest: of t, dim, span */
	double *sum; /* [t] */
	REAL scale;
};

/* ---- the textbook, which the blocks are checked against */

/* Row i's weights: w[j] = e^(q_i . k_j scale - lse_i); with lse, or to find it. */
static void
NAME(plain_weights)(const struct NAME(head) * h, size_t i, REAL *w, bool known)
{
	double most = -INFINITY, sum = 0;

	for (size_t j = 0; j < h->t; j++) {
		double dot = 0;

		for (size_t c = 0; c < h->dim; c++)
			dot +=
			    (double)h->q.at[i * h->q.row + c] * (double)h->k.at[j * h->k.row + c];
		w[j] = (REAL)dot * h->scale;
		most = (double)w[j] > most ? (double)w[j] : most;
	}
	for (size_t j = 0; j < h->t; j++)
		sum += exp((double)w[j] - most);
	if (!known)
		h->lse[i] = (REAL)(most + log(sum));
	for (size_t j = 0; j < h->t; j++)
		w[j] = (REAL)exp((double)(w[j] - h->lse[i]));
}

static void
NAME(plain)(const struct NAME(head) * h)
{
	for (size_t i = 0; i < h->t; i++) {
		REAL *w = h->score, *y = h->y.at + i * h->y.row;

		NAME(plain_weights)(h, i, w, false);
		memset(y, 0, h->dim * sizeof *y);
		for (size_t j = 0; j < h->t; j++)
			for (size_t c = 0; c < h->dim; c++)
				y[c] += w[j] * h->v.at[j * h->v.row + c];
	}
}

/* dq, dk and dv begin as 0. */
static void
NAME(plain_back)(const struct NAME(head) * h)
{
	for (size_t i = 0; i < h->t; i++) {
		const REAL *q = h->q.at + i * h->q.row, *dy = h->dy.at + i * h->dy.row;
		REAL *w = h->score, *dq = h->dq.at + i * h->dq.row, mean = 0, slope;

		NAME(plain_weights)(h, i, w, true);
		for (size_t c = 0; c < h->dim; c++)
			mean += dy[c] * h->y.at[i * h->y.row + c];
		for (size_t j = 0; j < h->t; j++) {
			const REAL *k = h->k.at + j * h->k.row, *v = h->v.at + j * h->v.row;

			slope = 0;
			for (size_t c = 0; c < h->dim; c++)
				slope += dy[c] * v[c];
			slope = w[j] * (slope - mean) * h->scale;
			for (size_t c = 0; c < h->dim; c++) {
				h->dv.at[j * h->dv.row + c] += w[j] * dy[c];
				h->dk.at[j * h->dk.row + c] += slope * q[c];
				dq[c] += slope * k[c];
			}
		}
	}
}

/* ---- in blocks */

/* WIDE columns of c (+)= a b, m rows, n products each. */
static ALWAYS_INLINE void
NAME(strip)(REAL *c, size_t row, const struct NAME(matrix) * a, const REAL *b, size_t b_row,
	    size_t m, size_t n, bool add)
{
	size_t i = 0, r = a->row;

	for (; i + 4 <= m; i += 4) {
		NAME(wide) s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0};
		REAL *to = c + i * row;

		for (size_t x = 0; x < n; x++) {
			const NAME(wide) line = *(const NAME(wide) *)(b + x * b_row);
			const REAL *p = a->at + i * r + x * a->col;

			s0 += p[0] * line;
			s1 += p[r] * line;
			s2 += p[2 * r] * line;
			s3 += p[3 * r] * line;
		}
		if (add) {
			s0 += *(NAME(wide) *)to;
			s1 += *(NAME(wide) *)(to + row);
			s2 += *(NAME(wide) *)(to + 2 * row);
			s3 += *(NAME(wide) *)(to + 3 * row);
		}
		*(NAME(wide) *)to = s0;
		*(NAME(wide) *)(to + row) = s1;
		*(NAME(wide) *)(to + 2 * row) = s2;
		*(NAME(wide) *)(to + 3 * row) = s3;
	}
	for (; i < m; i++) {
		NAME(wide) s = {0};

		for (size_t x = 0; x < n; x++)
			s += a->at[i * r + x * a->col] * *(const NAME(wide) *)(b + x * b_row);
		if (add)
			s += *(NAME(wide) *)(c + i * row);
		*(NAME(wide) *)(c + i * row) = s;
	}
}

/* c (+)= a b; c is [m, cols], a [m, n], b [n, cols]. Columns that are no whole WIDE are computed aside. */
HOT_CLONES static void
NAME(multiply)(const struct NAME(head) * h, struct NAME(matrix) c, struct NAME(matrix) a,
	       struct NAME(matrix) b, size_t m, size_t cols, size_t n, bool add)
{
	REAL *from = h->tail, *to = from + h->longest * WIDE;
	size_t at, rest;

	for (at = 0; at + WIDE <= cols; at += WIDE)
		NAME(strip)(c.at + at, c.row, &a, b.at + at, b.row, m, n, add);
	rest = cols - at;
	if (rest == 0)
		return;
	memset(from, 0, n * WIDE * sizeof *from);
	for (size_t x = 0; x < n; x++)
		memcpy(from + x * WIDE, b.at + x * b.row + at, rest * sizeof *from);
	NAME(strip)(to, WIDE, &a, from, WIDE, m, n, false);
	for (size_t i = 0; i < m; i++)
		for (size_t j = 0; j < rest; j++) {
			REAL *p = c.at + i * c.row + at + j;

			*p = add ? *p + to[i * WIDE + j] : to[i * WIDE + j];
		}
}

/* turned[c, j] = rows[first + j, c] factor. Up to the span anything may be: those weights become 0. */
static void
NAME(turn)(const struct NAME(head) * h, REAL *turned, const struct NAME(matrix) * rows,
	   size_t first, size_t n, REAL factor)
{
	for (size_t j = 0; j < n; j++) {
		const REAL *row = rows->at + (first + j) * rows->row;

		for (size_t c = 0; c < h->dim; c++)
			turned[c * h->span + j] = row[c] * factor;
	}
}

/* Each row's scores of n keys become e^(score - most), where most is the largest so far; kept is what earlier weights
 * are to be multiplied by. */
HOT_CLONES static void
NAME(soften)(const struct NAME(head) * h, size_t n, bool first)
{
	for (size_t i = 0; i < h->t; i++) {
		REAL *s = h->score + i * h->span, most, part[WIDE];
		double sum = 0;
		size_t j;

		for (j = n; j < h->span; j++)
			s[j] = -(REAL)INFINITY;
		for (size_t l = 0; l < WIDE; l++)
			part[l] = s[l];
		for (j = WIDE; j < h->span; j += WIDE)
			for (size_t l = 0; l < WIDE; l++)
				part[l] = s[j + l] > part[l] ? s[j + l] : part[l];
		most = first ? part[0] : h->most[i];
		for (size_t l = 0; l < WIDE; l++)
			most = part[l] > most ? part[l] : most;
		h->kept[i] = first ? 0 : NAME(exp_negative)(h->most[i] - most);
		h->most[i] = most;
		HOT_LOOP
		for (j = 0; j < h->span; j++)
			s[j] = NAME(exp_negative)(s[j] - most);
		for (size_t l = 0; l < WIDE; l++)
			part[l] = 0;
		for (j = 0; j < h->span; j += WIDE)
			for (size_t l = 0; l < WIDE; l++)
				part[l] += s[j + l];
		for (size_t l = 0; l < WIDE; l++)
			sum += (double)part[l];
		h->sum[i] = sum + (first ? 0 : h->sum[i] * (double)h->kept[i]);
	}
}

static void
NAME(rescale)(const struct NAME(head) * h, bool end)
{
	for (size_t i = 0; i < h->t; i++) {
		REAL *y = h->y.at + i * h->y.row, factor = end ? (REAL)(1 / h->sum[i]) : h->kept[i];

		for (size_t c = 0; c < h->dim; c++)
			y[c] *= factor;
		if (end)
			h->lse[i] = (REAL)((double)h->most[i] + log(h->sum[i]));
	}
}

static void
NAME(forward)(const struct NAME(head) * h)
{
	const struct NAME(matrix) score = {h->score, h->span, 1}, turned = {h->turned, h->span, 1};

	for (size_t first = 0; first < h->t; first += h->block) {
		size_t n = h->t - first < h->block ? h->t - first : h->block;
		struct NAME(matrix) v = h->v;

		NAME(turn)(h, h->turned, &h->k, first, n, h->scale);
		NAME(multiply)(h, score, h->q, turned, h->t, h->span, h->dim, false);
		NAME(soften)(h, n, first == 0);
		if (first > 0)
			NAME(rescale)(h, false);
		v.at += first * v.row;
		NAME(multiply)(h, h->y, score, v, h->t, h->dim, n, first > 0);
	}
	NAME(rescale)(h, true);
}

/* score becomes the weights, slope, which is dy . v, the gradient of the scores. A score above its row's logarithm is
 * rounding: e^x of x <= 0 only. */
HOT_CLONES static void
NAME(slopes)(const struct NAME(head) * h, size_t n)
{
	for (size_t i = 0; i < h->t; i++) {
		REAL *s = h->score + i * h->span, *d = h->slope + i * h->span, lse = h->lse[i];
		REAL due = h->due[i], scale = h->scale;
		size_t j;

		HOT_LOOP
		for (j = 0; j < h->span; j++) {
			REAL x = s[j] - lse, w = NAME(exp_negative)(x > 0 ? 0 : x);

			s[j] = w;
			d[j] = w * (d[j] - due) * scale;
		}
		for (j = n; j < h->span; j++)
			s[j] = d[j] = 0;
	}
}

static void
NAME(backward)(const struct NAME(head) * h)
{
	const struct NAME(matrix) score = {h->score, h->span, 1}, slope = {h->slope, h->span, 1};
	const struct NAME(matrix) score_t = {h->score, 1, h->span},
				  slope_t = {h->slope, 1, h->span};
	const struct NAME(matrix) turned = {h->turned, h->span, 1},
				  turned_v = {h->turned_v, h->span, 1};

	for (size_t i = 0; i < h->t; i++) {
		double due = 0;

		for (size_t c = 0; c < h->dim; c++)
			due +=
			    (double)h->dy.at[i * h->dy.row + c] * (double)h->y.at[i * h->y.row + c];
		h->due[i] = (REAL)due;
	}
	for (size_t first = 0; first < h->t; first += h->block) {
		size_t n = h->t - first < h->block ? h->t - first : h->block;
		struct NAME(matrix) k = h->k, dk = h->dk, dv = h->dv;

		k.at += first * k.row;
		dk.at += first * dk.row;
		dv.at += first * dv.row;
		NAME(turn)(h, h->turned, &h->k, first, n, h->scale);
		NAME(turn)(h, h->turned_v, &h->v, first, n, 1);
		NAME(multiply)(h, score, h->q, turned, h->t, h->span, h->dim, false);
		NAME(multiply)(h, slope, h->dy, turned_v, h->t, h->span, h->dim, false);
		NAME(slopes)(h, n);
		NAME(multiply)(h, dv, score_t, h->dy, n, h->dim, h->t, false);
		NAME(multiply)(h, dk, slope_t, h->q, n, h->dim, h->t, false);
		NAME(multiply)(h, h->dq, slope, k, h->t, h->dim, n, first > 0);
	}
}
#undef WIDE
