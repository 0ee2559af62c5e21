#include "base/json.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

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

/* ---- documents */

/* A conversion's value; `spec` has all of it, with its last character. */
static void
put_value(struct json *j, const char *spec, va_list *ap)
{
	const char last = spec[strlen(spec) - 1];
	const char *s;
	double v;

	if (last == 's') {
		s = va_arg(*ap, const char *);
		if (s)
			json_string(s, j->f);
		else
			fputs("null", j->f);
	} else if (strchr("gef", last)) {
		v = va_arg(*ap, double);
		fprintf(j->f, isfinite(v) ? spec : "null", v);
	} else if (strstr(spec, "hh")) {
		fputs(va_arg(*ap, int) ? "true" : "false", j->f);
	} else {
		fputs(last == 'x' ? "\"" : "", j->f);
		if (strchr(spec, 'l') || strchr(spec, 'z'))
			fprintf(j->f, spec, va_arg(*ap, unsigned long));
		else
			fprintf(j->f, spec, va_arg(*ap, unsigned));
		fputs(last == 'x' ? "\"" : "", j->f);
	}
}

void
json_put(struct json *j, const char *fmt, ...)
{
	char spec[16];
	va_list ap;

	va_start(ap, fmt);
	for (size_t n; *fmt; fmt += n) {
		bool name;

		n = *fmt == '%' ? strcspn(fmt, "sdugefx") + 1 : 1;
		while (isalnum((unsigned char)*fmt) &&
		       (isalnum((unsigned char)fmt[n]) || fmt[n] == '_'))
			n++;
		if (*fmt == ' ')
			continue;
		if (j->behind && !strchr("]}\n", *fmt))
			putc(',', j->f);
		name = fmt[n] == ':';
		if (*fmt == '%') {
			snprintf(spec, sizeof spec, "%.*s", (int)n, fmt);
			put_value(j, spec, &ap);
		} else {
			fprintf(j->f, name ? "\"%.*s\"" : "%.*s", (int)n, fmt);
		}
		if (name)
			putc(fmt[n++], j->f);
		j->behind = !name && !strchr("[{\n", *fmt);
	}
	va_end(ap);
}
