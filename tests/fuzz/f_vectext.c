/* Fuzz vector text: byte 0 is the element type, the rest is the text. A vector that is read can be
 * written, and its text reads back as the same bytes (except NaN, whose sign text does not keep)
 * and is written again as the same text. */
#include <stdlib.h>
#include <string.h>

#include "mem/dtype.h"
#include "mem/vectext.h"

#include "fuzz.h"

static void
format(enum gpusim_dtype t, const struct vectext *v, struct buf *text)
{
	struct err err = {0};

	for (size_t i = 0; i < v->nvec; i++)
		require(vectext_format(t, (const char *)v->data + i * v->nelem * dtype_size(t),
				       v->nelem, text, &err) == RC_OK);
}

static void
round_trip(enum gpusim_dtype t, const struct vectext *v)
{
	struct vectext again = {0};
	struct buf text = {0}, text_again = {0};
	struct err err = {0};

	format(t, v, &text);
	require(vectext_parse(t, (const char *)text.data, text.len, 1, &again, &err) == RC_OK);
	require(again.nvec == v->nvec && again.nelem == v->nelem);
	require(memcmp(again.data, v->data, v->nvec * v->nelem * dtype_size(t)) == 0 ||
		memmem(text.data, text.len, "nan", 3));
	format(t, &again, &text_again);
	require(text_again.len == text.len);
	require(text.len == 0 || memcmp(text_again.data, text.data, text.len) == 0);
	vectext_fini(&again);
	buf_fini(&text_again);
	buf_fini(&text);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct vectext v = {0};
	struct err err = {0};
	enum gpusim_dtype t;

	if (size == 0)
		return 0;
	t = (enum gpusim_dtype)(data[0] % GPUSIM_NDTYPES);
	if (vectext_parse(t, (const char *)data + 1, size - 1, 1, &v, &err) == RC_OK)
		round_trip(t, &v);
	else
		require(err.rc == RC_BADDATA && err.text[0] && !v.data);
	vectext_fini(&v);
	return 0;
}
