#include "algo/text_impl.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define SCAN_COST 4 /* of a byte, in a budget's units */

bool
scan_fail(struct scan *s, enum rc rc, const char *fmt, ...)
{
	va_list ap;

	if (s->err.rc != RC_OK)
		return false;
	va_start(ap, fmt);
	vsnprintf(s->err.text, sizeof s->err.text, fmt, ap);
	va_end(ap);
	s->err.rc = rc;
	err_prefix(&s->err, "%s:%" PRIu32, s->name, s->line);
	return false;
}

bool
scan_work(struct scan *s, uint64_t n)
{
	struct err err;

	s->work += n;
	if (algo_spend(s->budget, SCAN_COST * n, &err) != RC_OK)
		return scan_fail(s, err.rc, "%s", err.text);
	return s->work <= SCAN_MAX_WORK ||
	       scan_fail(s, RC_BADDATA, "the loops take too long: more than %u bytes were read",
			 SCAN_MAX_WORK);
}

/* ---- tokens */

static bool
is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool
number(struct scan *s)
{
	s->token = TOKEN_NUMBER;
	s->number = 0;
	for (; s->at < s->end && is_digit(*s->at); s->at++) {
		s->number = 10 * s->number + (*s->at - '0');
		if (s->number > SCAN_MAX_VALUE)
			return scan_fail(s, RC_BADDATA, "'%.20s...' is too large", s->word);
	}
	if (s->at < s->end && is_letter(*s->at))
		return scan_fail(s, RC_BADDATA, "'%.*s' is neither a number nor a name",
				 (int)(s->at - s->word) + 1, s->word);
	return true;
}

static bool
symbol(struct scan *s)
{
	static const char two[][3] = {"->", "..", "==", "!=", "<=", ">=", "<<", ">>"};

	s->token = TOKEN_SYMBOL;
	for (size_t i = 0; i < sizeof two / sizeof *two; i++)
		if (s->end - s->at >= 2 && memcmp(s->at, two[i], 2) == 0) {
			s->at += 2;
			s->symbol = SYMBOL(two[i][0], two[i][1]);
			return true;
		}
	if (*s->at && strchr("()[]:.,=+-*/%<>&|^", *s->at)) {
		s->symbol = *s->at++;
		return true;
	}
	if (*s->at > ' ' && *s->at < 0x7f)
		return scan_fail(s, RC_BADDATA, "'%c' is not allowed here", *s->at);
	return scan_fail(s, RC_BADDATA, "a byte of value %u is not allowed here",
			 (unsigned char)*s->at);
}

bool
scan_next(struct scan *s)
{
	const char *from = s->at;
	bool good = true;

	while (s->at < s->end && (*s->at == ' ' || *s->at == '\t' || *s->at == '\r'))
		s->at++;
	s->word = s->at;
	if (s->at == s->end || *s->at == '\n' || *s->at == '#') {
		s->token = TOKEN_END;
	} else if (is_letter(*s->at)) {
		s->token = TOKEN_WORD;
		while (s->at < s->end && (is_letter(*s->at) || is_digit(*s->at)))
			s->at++;
	} else if (is_digit(*s->at)) {
		good = number(s);
	} else {
		good = symbol(s);
	}
	s->len = (size_t)(s->at - s->word);
	return scan_work(s, (uint64_t)(s->at - from) + 1) && good;
}

bool
scan_line(struct scan *s, const char *at, uint32_t line)
{
	s->at = at;
	s->line = line;
	s->depth = 0;
	return scan_next(s);
}

bool
scan_is(const struct scan *s, const char *word)
{
	return s->token == TOKEN_WORD && strlen(word) == s->len &&
	       memcmp(s->word, word, s->len) == 0;
}

static bool
scan_is_symbol(const struct scan *s, int symbol)
{
	return s->token == TOKEN_SYMBOL && s->symbol == symbol;
}

bool
scan_take(struct scan *s, const char *word, bool *found)
{
	*found = scan_is(s, word);
	return !*found || scan_next(s);
}

bool
scan_take_symbol(struct scan *s, int symbol, bool *found)
{
	*found = scan_is_symbol(s, symbol);
	return !*found || scan_next(s);
}

/* The error for an unexpected token. */
static bool
fail_wanted(struct scan *s, const char *wanted)
{
	if (s->token == TOKEN_END)
		return scan_fail(s, RC_BADDATA, "the line ends, expected %s", wanted);
	return scan_fail(s, RC_BADDATA, "'%.*s' found, expected %s",
			 (int)(s->len < 40 ? s->len : 40), s->word, wanted);
}

bool
scan_expect(struct scan *s, const char *word)
{
	char wanted[48];

	if (scan_is(s, word))
		return scan_next(s);
	snprintf(wanted, sizeof wanted, "'%.40s'", word);
	return fail_wanted(s, wanted);
}

bool
scan_expect_symbol(struct scan *s, int symbol)
{
	char wanted[8];

	if (scan_is_symbol(s, symbol))
		return scan_next(s);
	snprintf(wanted, sizeof wanted, symbol > 0xff ? "'%c%c'" : "'%c'", symbol & 0xff,
		 symbol >> 8);
	return fail_wanted(s, wanted);
}

bool
scan_expect_end(struct scan *s)
{
	return s->token == TOKEN_END || fail_wanted(s, "the line's end");
}

bool
scan_rest(struct scan *s, const char **at, size_t *len)
{
	const char *end = s->word;

	*at = s->word;
	while (end < s->end && *end != '\n' && *end != '#')
		end++;
	s->at = end;
	while (end > *at && strchr(" \t\r", end[-1]))
		end--;
	*len = (size_t)(end - *at);
	return scan_next(s);
}

/* ---- variables */

/* Keywords. */
static bool
is_reserved(const struct scan *s)
{
	static const char *const words[] = {
	    "algorithm", "collective", "ranks",	  "chunks", "channels", "scratch", "root",
	    "inplace",	 "outofplace", "proto",	  "bytes",  "for",	"in",	   "let",
	    "if",	 "else",       "end",	  "copy",   "reduce",	"rank",	   "block",
	    "send",	 "recv",       "channel", "after",  "out",	"data"};

	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (scan_is(s, words[i]))
			return true;
	return false;
}

static struct variable *
find(struct scan *s)
{
	for (unsigned i = s->nvariables; i-- > 0;)
		if (scan_is(s, s->variable[i].name))
			return &s->variable[i];
	return NULL;
}

bool
scan_define(struct scan *s, struct variable **out)
{
	struct variable *v = find(s);

	if (s->token != TOKEN_WORD)
		return fail_wanted(s, "a variable's name");
	if (v && v->line)
		return scan_fail(s, RC_BADDATA, "'%s' already has a value, from line %" PRIu32,
				 v->name, v->line);
	if (v || is_reserved(s))
		return scan_fail(s, RC_BADDATA, "'%.*s' is a keyword", (int)s->len, s->word);
	if (s->len >= SCAN_MAX_NAME)
		return scan_fail(s, RC_BADDATA, "a name longer than %u letters", SCAN_MAX_NAME - 1);
	if (s->nvariables == SCAN_MAX_VARIABLES)
		return scan_fail(s, RC_BADDATA, "more than %u variables", SCAN_MAX_VARIABLES);
	v = &s->variable[s->nvariables++];
	memcpy(v->name, s->word, s->len);
	v->name[s->len] = '\0';
	v->line = s->line;
	*out = v;
	return scan_next(s);
}

/* ---- expressions */

/* Operators, from the lowest precedence; left-associative. */
static const struct operator
{
	int symbol;
	unsigned level;
}
operators[] = {
    {SYMBOL('=', '='), 0},
    {SYMBOL('!', '='), 0},
    {'<', 0},
    {SYMBOL('<', '='), 0},
    {'>', 0},
    {SYMBOL('>', '='), 0},
    {'|', 1},
    {'^', 1},
    {'&', 2},
    {SYMBOL('<', '<'), 3},
    {SYMBOL('>', '>'), 3},
    {'+', 4},
    {'-', 4},
    {'*', 5},
    {'/', 5},
    {'%', 5},
};

#define LEVELS 6

static int64_t
floor_divide(int64_t a, int64_t b)
{
	return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

/* Bit operations on non-negative numbers. */
static bool
bits(struct scan *s, int symbol, int64_t a, int64_t b, int64_t *out)
{
	if (a < 0 || b < 0)
		return scan_fail(s, RC_BADDATA,
				 "%" PRId64 " and %" PRId64 ": bit operation on a negative number",
				 a, b);
	if (symbol == '|' || symbol == '^' || symbol == '&') {
		*out = symbol == '|' ? a | b : symbol == '^' ? a ^ b : a & b;
		return true;
	}
	if (symbol == SYMBOL('>', '>')) {
		*out = b > 62 ? 0 : a >> b;
		return true;
	}
	if (b > 53 || a > SCAN_MAX_VALUE >> b)
		return scan_fail(s, RC_BADDATA, "%" PRId64 " << %" PRId64 " is too large", a, b);
	*out = a << b;
	return true;
}

static bool
apply(struct scan *s, int symbol, int64_t a, int64_t b, int64_t *out)
{
	int64_t v = 0;

	switch (symbol) {
	case SYMBOL('=', '='):
		v = a == b;
		break;
	case SYMBOL('!', '='):
		v = a != b;
		break;
	case '<':
		v = a < b;
		break;
	case SYMBOL('<', '='):
		v = a <= b;
		break;
	case '>':
		v = a > b;
		break;
	case SYMBOL('>', '='):
		v = a >= b;
		break;
	case '+':
		v = a + b;
		break;
	case '-':
		v = a - b;
		break;
	case '*':
		if (__builtin_mul_overflow(a, b, &v))
			v = INT64_MAX;
		break;
	case '/':
	case '%':
		if (b == 0)
			return scan_fail(s, RC_BADDATA, "%" PRId64 " is divided by 0", a);
		v = floor_divide(a, b);
		v = symbol == '/' ? v : a - v * b;
		break;
	default:
		if (!bits(s, symbol, a, b, &v))
			return false;
	}
	if (v > SCAN_MAX_VALUE || v < -SCAN_MAX_VALUE)
		return scan_fail(s, RC_BADDATA, "a number beyond 2^53");
	*out = v;
	return true;
}

static bool expr_level(struct scan *s, unsigned level, int64_t *out);

static bool
in_parentheses(struct scan *s, int64_t *out)
{
	bool good;

	if (s->depth++ == SCAN_MAX_DEPTH)
		return scan_fail(s, RC_BADDATA, "more than %u parentheses", SCAN_MAX_DEPTH);
	good = scan_next(s) && expr_level(s, 0, out) && scan_expect_symbol(s, ')');
	s->depth--;
	return good;
}

static bool
operand(struct scan *s, int64_t *out)
{
	bool minus = false, found = true;
	const struct variable *v;

	while (found) {
		if (!scan_take_symbol(s, '-', &found))
			return false;
		minus ^= found;
	}
	if (s->token == TOKEN_NUMBER) {
		*out = s->number;
		if (!scan_next(s))
			return false;
	} else if (scan_is_symbol(s, '(')) {
		if (!in_parentheses(s, out))
			return false;
	} else if (s->token == TOKEN_WORD) {
		v = find(s);
		if (!v)
			return scan_fail(s, RC_BADDATA, "'%.*s' has no value",
					 (int)(s->len < 40 ? s->len : 40), s->word);
		*out = v->value;
		if (!scan_next(s))
			return false;
	} else {
		return fail_wanted(s, "a number");
	}
	if (minus)
		*out = -*out;
	return true;
}

/* The operator at the token, if it has that precedence; 0: none. */
static int
operator_at(const struct scan *s, unsigned level)
{
	for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
		if (operators[i].level == level && scan_is_symbol(s, operators[i].symbol))
			return operators[i].symbol;
	return 0;
}

static bool
expr_level(struct scan *s, unsigned level, int64_t *out)
{
	int symbol;
	int64_t b;

	if (level == LEVELS)
		return operand(s, out);
	if (!expr_level(s, level + 1, out))
		return false;
	while ((symbol = operator_at(s, level)) != 0)
		if (!scan_next(s) || !expr_level(s, level + 1, &b) ||
		    !apply(s, symbol, *out, b, out))
			return false;
	return true;
}

bool
scan_expr(struct scan *s, int64_t *out)
{
	return expr_level(s, 0, out);
}

bool
scan_u32(struct scan *s, const char *what, uint32_t lo, uint32_t hi, uint32_t *out)
{
	int64_t v;

	if (!scan_expr(s, &v))
		return false;
	if (v < lo || v > hi)
		return scan_fail(s, RC_BADDATA, "%s %" PRId64 ": must be %" PRIu32 " to %" PRIu32,
				 what, v, lo, hi);
	*out = (uint32_t)v;
	return true;
}
