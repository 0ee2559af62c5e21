/*
 * kern_channel.c - sums over a channel of images.
 *
 * Each is the sum of LANES sums, for any width of the processor's vectors.
 */
#include "kern/kern_channel.h"

#include "mem/clones.h"

#define LANES 16

/* Sum the lanes in a fixed order. */
static double
join(const double *lane)
{
	double sum = 0;
	size_t i;

	for (i = 0; i < LANES; i++)
		sum += lane[i];
	return sum;
}

/*
 * A function that goes through a channel's planes and lets `body` add element x[j] of type `type`
 * to lane l; it has the arguments `extra` beside the channel.
 */
#define CHANNEL_LOOP(name, type, extra, body)                                   \
	HOT_CLONES static void name##_##type extra                              \
	{                                                                       \
		const size_t step = ch->c * ch->hw, first = ch->which * ch->hw; \
		const type *x = (const type *)ch->x + first;                    \
		const type *dy = (const type *)ch->dy;                          \
		size_t i, j, l;                                                 \
                                                                                \
		dy = dy != NULL ? dy + first : x;                               \
		for (i = 0; i < ch->n; i++, x += step, dy += step) {            \
			for (j = 0; j + LANES <= ch->hw; j += LANES) {          \
				for (l = 0; l < LANES; l++)                     \
					body(x[j + l], dy[j + l], l);           \
			}                                                       \
			for (l = 0; j + l < ch->hw; l++)                        \
				body(x[j + l], dy[j + l], l);                   \
		}                                                               \
	}

#define ADD_X(x, dy, l) (sum[l] += (double)(x))
CHANNEL_LOOP(sum, float, (const struct channel *ch, double *restrict sum), ADD_X)
CHANNEL_LOOP(sum, double, (const struct channel *ch, double *restrict sum), ADD_X)

#define ADD_SQUARES(x, dy, l) (sum[l] += (double)(x), squares[l] += (double)(x) * (double)(x))
CHANNEL_LOOP(squares, float,
	     (const struct channel *ch, double *restrict sum, double *restrict squares),
	     ADD_SQUARES)
CHANNEL_LOOP(squares, double,
	     (const struct channel *ch, double *restrict sum, double *restrict squares),
	     ADD_SQUARES)

#define ADD_PRODUCTS(x, dy, l) \
	(sum[l] += (double)(dy), products[l] += (double)(dy) * ((double)(x)-mean))
CHANNEL_LOOP(products, float,
	     (const struct channel *ch, double mean, double *restrict sum,
	      double *restrict products),
	     ADD_PRODUCTS)
CHANNEL_LOOP(products, double,
	     (const struct channel *ch, double mean, double *restrict sum,
	      double *restrict products),
	     ADD_PRODUCTS)

double
channel_sum(const struct channel *ch)
{
	double lane[LANES] = {0};

	if (ch->size == sizeof(float))
		sum_float(ch, lane);
	else
		sum_double(ch, lane);
	return join(lane);
}

void
channel_squares(const struct channel *ch, double sum[2])
{
	double lane[LANES] = {0}, square[LANES] = {0};

	if (ch->size == sizeof(float))
		squares_float(ch, lane, square);
	else
		squares_double(ch, lane, square);
	sum[0] = join(lane);
	sum[1] = join(square);
}

void
channel_products(const struct channel *ch, double mean, double factor, double sum[2])
{
	double lane[LANES] = {0}, product[LANES] = {0};

	if (ch->size == sizeof(float))
		products_float(ch, mean, lane, product);
	else
		products_double(ch, mean, lane, product);
	sum[0] = join(lane);
	sum[1] = join(product) * factor;
}
