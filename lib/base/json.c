#include "base/json.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of the character of UTF-8 beyond ASCII that s begins with; 0: there is none. */
static size_t
utf8_length(const unsigned char *s)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	size_t n = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
	uint32_t c = s[0] & (0x7fu >> n);

	if (s[0] < 0xc0 || s[0] > 0xf7)
		return 0;
	for (size_t i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (s[i] & 0x3f);
	}
	return c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000) ? 0 : n;
}

void
json_string(const char *s, FILE *f)
{
	const unsigned char *p = (const unsigned char *)s;

	putc('"', f);
	for (size_t n = 1; *p; p += n) {
		n = *p > '~' ? utf8_length(p) : 1;
		if (n > 1)
			fwrite(p, 1, n, f);
		else if (*p == '"' || *p == '\\')
			fprintf(f, "\\%c", *p);
		else if (n == 0 || *p < ' ')
			fprintf(f, "\\u%04x", *p);
		else
			putc(*p, f);
		n = n ? n : 1;
	}
	putc('"', f);
}

void
json_member(const char *name, const char *s, FILE *f)
{
	fprintf(f, ",\"%s\":", name);
	json_string(s, f);
}

void
json_real(double v, FILE *f)
{
	if (isfinite(v))
		fprintf(f, "%.9g", v);
	else
		fputs("null", f);
}
