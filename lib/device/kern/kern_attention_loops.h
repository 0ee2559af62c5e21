/*
 * kern_attention_loops.h - the loops of kern_attention.c for one type: REAL, and NAME(x), x with the type's name.
 *
 * Included once for each type, so it has no guard.
 */

/* One head of one sample: rows of q, k, v and their gradients are `step` elements apart, those of y and dy `width`. */
struct NAME(head) {
	const REAL *q, *k, *v, *y, *dy;
	REAL *out, *dq, *dk, *dv, *lse;
	REAL *turned, *turned_v, *score, *slope; /* [dim, block] two times, [block] two times */
	size_t t, dim, step, width, block;
	REAL scale;
};

/* turned[c, j] = rows[j, c] */
static void
NAME(turn)(REAL *turned, const REAL *rows, size_t n, const struct NAME(head) * h)
{
	for (size_t j = 0; j < n; j++)
		for (size_t c = 0; c < h->dim; c++)
			turned[c * h->block + j] = rows[j * h->step + c];
}

/* out[j] = factor (row . column j of turned) */
HOT_CLONES static void
NAME(products)(REAL *out, const REAL *row, const REAL *turned, size_t n, size_t dim, size_t block,
	       REAL factor)
{
	for (size_t j = 0; j < n; j++)
		out[j] = 0;
	for (size_t c = 0; c < dim; c++) {
		const REAL x = row[c] * factor, *column = turned + c * block;
		size_t j;

		HOT_LOOP
		for (j = 0; j < n; j++)
			out[j] += x * column[j];
	}
}

/* score[j] = e^(score[j] - most); returns their sum. */
HOT_CLONES static double
NAME(weights)(REAL *score, size_t n, REAL most)
{
	double sum = 0;
	size_t j;

	HOT_LOOP
	for (j = 0; j < n; j++)
		score[j] = (REAL)exp_negative((double)(score[j] - most));
	for (j = 0; j < n; j++)
		sum += (double)score[j];
	return sum;
}

/* y += x row */
HOT_CLONES static void
NAME(add)(REAL *y, REAL x, const REAL *row, size_t n)
{
	size_t c;

	HOT_LOOP
	for (c = 0; c < n; c++)
		y[c] += x * row[c];
}

HOT_CLONES static void
NAME(multiply)(REAL *y, REAL x, size_t n)
{
	size_t c;

	HOT_LOOP
	for (c = 0; c < n; c++)
		y[c] *= x;
}

/* One block of keys for a row: out, its sum and its largest score so far. */
static void
NAME(row)(const struct NAME(head) * h, size_t i, size_t first, size_t n, double *sum, REAL *most)
{
	REAL *out = h->out + i * h->width, here, kept;

	NAME(products)(h->score, h->q + i * h->step, h->turned, n, h->dim, h->block, h->scale);
	here = h->score[0];
	for (size_t j = 1; j < n; j++)
		here = h->score[j] > here ? h->score[j] : here;
	if (first > 0 && here > *most) {
		kept = (REAL)exp_negative((double)(*most - here));
		*sum *= (double)kept;
		NAME(multiply)(out, kept, h->dim);
	}
	*most = first == 0 || here > *most ? here : *most;
	*sum += NAME(weights)(h->score, n, *most);
	for (size_t j = 0; j < n; j++)
		NAME(add)(out, h->score[j], h->v + (first + j) * h->step, h->dim);
}

/* lse holds each row's largest score until its end; the sums are in sum[t]. */
static void
NAME(forward)(const struct NAME(head) * h, double *sum)
{
	for (size_t i = 0; i < h->t; i++) {
		sum[i] = 0;
		memset(h->out + i * h->width, 0, h->dim * sizeof(REAL));
	}
	for (size_t first = 0; first < h->t; first += h->block) {
		size_t n = h->t - first < h->block ? h->t - first : h->block;

		NAME(turn)(h->turned, h->k + first * h->step, n, h);
		for (size_t i = 0; i < h->t; i++)
			NAME(row)(h, i, first, n, &sum[i], &h->lse[i]);
	}
	for (size_t i = 0; i < h->t; i++) {
		NAME(multiply)(h->out + i * h->width, (REAL)(1 / sum[i]), h->dim);
		h->lse[i] = (REAL)((double)h->lse[i] + log(sum[i]));
	}
}

/* One block of keys for a row: its part of dq, dk and dv. due: dy . y of the row. */
static void
NAME(row_back)(const struct NAME(head) * h, size_t i, size_t first, size_t n, REAL due)
{
	const REAL *q = h->q + i * h->step, *dy = h->dy + i * h->width;

	NAME(products)(h->score, q, h->turned, n, h->dim, h->block, h->scale);
	NAME(products)(h->slope, dy, h->turned_v, n, h->dim, h->block, 1);
	/* A score above its row's logarithm is rounding: e^x of x <= 0 only. */
	for (size_t j = 0; j < n; j++)
		h->score[j] = h->score[j] < h->lse[i] ? h->score[j] : h->lse[i];
	NAME(weights)(h->score, n, h->lse[i]);
	for (size_t j = 0; j < n; j++) {
		REAL weight = h->score[j], slope = weight * (h->slope[j] - due) * h->scale;

		NAME(add)(h->dv + (first + j) * h->step, weight, dy, h->dim);
		NAME(add)(h->dk + (first + j) * h->step, slope, q, h->dim);
		NAME(add)(h->dq + i * h->step, slope, h->k + (first + j) * h->step, h->dim);
	}
}

static void
NAME(backward)(const struct NAME(head) * h)
{
	for (size_t i = 0; i < h->t; i++) {
		memset(h->dq + i * h->step, 0, h->dim * sizeof(REAL));
		memset(h->dk + i * h->step, 0, h->dim * sizeof(REAL));
		memset(h->dv + i * h->step, 0, h->dim * sizeof(REAL));
	}
	for (size_t first = 0; first < h->t; first += h->block) {
		size_t n = h->t - first < h->block ? h->t - first : h->block;

		NAME(turn)(h->turned, h->k + first * h->step, n, h);
		NAME(turn)(h->turned_v, h->v + first * h->step, n, h);
		for (size_t i = 0; i < h->t; i++) {
			double due = 0;

			for (size_t c = 0; c < h->dim; c++)
				due += (double)h->dy[i * h->width + c] *
				       (double)h->y[i * h->width + c];
			NAME(row_back)(h, i, first, n, (REAL)due);
		}
	}
}
