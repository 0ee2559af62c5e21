/* CUDA_VISIBLE_DEVICES: one case a line. */
#include <string.h>

#include "cudart/cuda_impl.h"
#include "tap.h"

static const char uuid[4][VISIBLE_UUID] = {
    "GPU-6770756d-0000-0000-1111-000000000000",
    "GPU-6770756d-0000-0000-1122-000000000000",
    "GPU-6770756d-0000-0000-1233-000000000000",
    "GPU-6770756d-0000-0000-2444-000000000000",
};

static const struct {
	const char *list, *visible;
} cases[] = {
    {NULL, "0123"},
    {"", ""},
    {"-1", ""},
    {"0", "0"},
    {"3,1", "31"},
    {" 2 , 0 ", "20"},
    {"1,-1,0", "1"},
    {"0,4,1", "0"},
    {"0,x", "0"},
    {"1x", ""},
    {"0,,1", "0"},
    {"99999999999999999999", ""},
    {"1,1", ""},
    {"NoDevFiles", ""},
    {"GPU-6770756d-0000-0000-2", "3"},
    {"gpu-6770756D-0000-0000-12,0", "20"},
    {"GPU-6770756d-0000-0000-11", ""},
    {"GPU-6770756d-0000-0000-1122-000000000000,2", "12"},
};

int
main(void)
{
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		char got[5] = "";
		size_t index[4], n = visible_parse(cases[i].list, uuid, 4, index);

		for (size_t k = 0; k < n; k++)
			got[k] = (char)('0' + index[k]);
		ok(strcmp(got, cases[i].visible) == 0, "\"%s\" shows \"%s\", got \"%s\"",
		   cases[i].list ? cases[i].list : "(not set)", cases[i].visible, got);
	}
	return tap_done();
}
