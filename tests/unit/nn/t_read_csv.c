/* Tables: decimals, records, the meaning of columns, classes, and every error with its line. */
#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "dataset_test.h"
#include "nn/csv.h"
#include "nn/decimal.h"
#include "nn/rng.h"
#include "tap.h"

static enum decimal
decimal(const char *text, float *out)
{
	return decimal_f32(text, strlen(text), out);
}

static void
test_decimals(void)
{
	static const char *const none[] = {"",	  "+",	"-",  ".",     "e5",  "1e",  "1e+", "0x10",
					   "1,5", "1 ", " 1", "1.2.3", "--1", "abc", "1f",  "infi"};
	static const char *const infinite[] = {"nan", "NaN", "-nan", "inf", "-INF", "Infinity"};
	float f = 42, big = 0;
	bool good = true;

	for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
		good &= decimal(none[i], &f) == DECIMAL_SYNTAX;
	for (size_t i = 0; i < sizeof infinite / sizeof infinite[0]; i++)
		good &= decimal(infinite[i], &f) == DECIMAL_NOT_FINITE;
	good &= decimal("1e39", &f) == DECIMAL_RANGE && decimal("-1e9999", &f) == DECIMAL_RANGE;
	ok(good && f == 42, "what is no number, not finite or too large leaves the output");
	ok(decimal("3.4028235e38", &big) == DECIMAL_OK && big == 0x1.fffffep127f &&
	       decimal("1e-60", &f) == DECIMAL_OK && f == 0 && decimal("-0", &f) == DECIMAL_OK &&
	       f == 0 && signbit(f) && decimal(".5", &f) == DECIMAL_OK && f == 0.5f &&
	       decimal("+7.", &f) == DECIMAL_OK && f == 7 &&
	       decimal_f32("12345", 2, &f) == DECIMAL_OK && f == 12,
	   "the largest, the smallest, signs, points, and no byte beyond the length");
}

/* Random decimals of every length agree with strtof. */
static void
test_exact(void)
{
	struct rng rng;
	char text[64];
	int wrong = 0;
	float f, want;

	rng_init(&rng, 5);
	for (int i = 0; i < 200000; i++) {
		uint64_t digits = rng_next(&rng) >> rng_below(&rng, 64);
		int point = (int)rng_below(&rng, 14), e = (int)rng_below(&rng, 60) - 30;

		switch (rng_below(&rng, 3)) {
		case 0:
			snprintf(text, sizeof text, "%" PRIu64 ".%0*" PRIu64, digits % 1000, point,
				 digits / 1000 % 100000000);
			break;
		case 1:
			snprintf(text, sizeof text, "-%" PRIu64 "e%d", digits, e);
			break;
		default:
			snprintf(text, sizeof text, "0.%0*d%" PRIu64, point, 0, digits);
		}
		want = strtof(text, NULL);
		if (isinf(want))
			wrong += decimal(text, &f) != DECIMAL_RANGE;
		else
			wrong += decimal(text, &f) != DECIMAL_OK || f != want;
	}
	ok(wrong == 0, "200000 decimals are rounded as strtof rounds them");
}

static void
test_whole(void)
{
	static const char *const none[] = {
	    "", "-", ".", ".0", "1e3", "0.5", "1.05", "x", "1234567890123456789"};
	int64_t v = 0, w = 0;
	bool good = true;

	for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
		good &= !decimal_whole(none[i], strlen(none[i]), &v);
	ok(good && v == 0, "what is no whole number");
	ok(decimal_whole("-17", 3, &v) && v == -17 && decimal_whole("3.00", 4, &w) && w == 3 &&
	       decimal_whole("007", 3, &v) && v == 7,
	   "whole numbers, with zeros on either side");
}

/* All fields of a text, "line:field|field/" a record, or the error message. */
static const char *
records(const void *text, size_t len)
{
	static char out[4096];
	static struct csv csv;
	struct input in = {.name = "x", .fd = -1, .nstored = len, .next = text, .avail = len};
	struct err err = {0};
	bool more = true;
	size_t n = 0;
	enum rc rc;

	out[0] = '\0';
	csv = (struct csv){0};
	rc = input_begin(&in, &err);
	if (rc == RC_OK)
		rc = csv_begin(&csv, &in, &err);
	while (rc == RC_OK && (rc = csv_next(&csv, &more, &err)) == RC_OK && more) {
		n += (size_t)snprintf(out + n, sizeof out - n, "%" PRIu64 ":", csv.record_line);
		for (uint32_t i = 0; i < csv.nfields; i++)
			n += (size_t)snprintf(out + n, sizeof out - n, "%s%.*s", i ? "|" : "",
					      (int)csv.fields[i].len, csv.fields[i].text);
		n += (size_t)snprintf(out + n, sizeof out - n, "/");
	}
	csv_end(&csv);
	input_end(&in);
	if (rc != RC_OK)
		snprintf(out, sizeof out, "%s", err.text);
	return out;
}

static void
test_records(void)
{
	static const struct {
		const char *text, *want;
	} row[] = {
	    {"", ""},
	    {"\n\n \r\n", ""},
	    {"a,b\nc,d\n", "1:a|b/2:c|d/"},
	    {"a,b\r\nc,d", "1:a|b/2:c|d/"},
	    {"a,b\rc,d\r", "1:a|b/2:c|d/"},
	    {"\xef\xbb\xbf"
	     "a,b",
	     "1:a|b/"},
	    {"\n a , b \n\n\t\nc,\td\n", "2:a|b/5:c|d/"},
	    {",\n,,x", "1:|/2:||x/"},
	    {"a;b\n1,5;2\n", "1:a|b/2:1,5|2/"},
	    {"a\tb\n1\t2 \n\t3", "1:a|b/2:1|2/3:|3/"},
	    {"\"a;b;c\",b\n1,2", "1:a;b;c|b/2:1|2/"},
	    {"\"a\",\"b \"\"c\"\"\"\n", "1:a|b \"c\"/"},
	    {" \"a\" ,\"\"\n", "1:a|/"},
	    {"\"two\r\nlines\",1\n2,3\n", "1:two\r\nlines|1/3:2|3/"},
	    {"\"a\"\r\n\"b\",c\r\n", "1:a/2:b|c/"},
	    {"\"a\"\r\"b\"\r", "1:a/2:b/"},
	    {"\"a\"\n\"b\",c\n", "1:a/2:b|c/"},
	    {"\"a\"", "1:a/"},
	    {"x\n\"a\nb\nc", "x:2: a quote is not closed"},
	    {"\"", "x:1: a quote is not closed"},
	    {"1\n\"a\"b,c", "x:2: text after a closing quote"},
	    {"a\"b\",c", "x:1: a quote in an unquoted field"},
	};

	for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
		const char *got = records(row[i].text, strlen(row[i].text));

		ok(strcmp(got, row[i].want) == 0, "records %zu", i);
		if (strcmp(got, row[i].want) != 0)
			printf("# got %s\n", got);
	}
	ok(strcmp(records("a,b\n1,\0", 7), "x:2: a NUL byte: the file is not text") == 0,
	   "a NUL byte");
}

/* CR LF, quotes and others at every possible end of a chunk of the file. */
static void
test_pieces(void)
{
	static const char tail[] = "\r\n\"q\"\"\r\n\",2\r\rlast,\"x\"\r";
	size_t cap = 2 * INPUT_CHUNK, n;
	char *text = malloc(cap);
	char quoted[32], last[32];
	bool good = true;

	memset(text, '\n', cap);
	text[0] = ',';
	for (size_t begin = INPUT_CHUNK - sizeof tail - 2; begin <= INPUT_CHUNK + 2; begin++) {
		const char *got;

		memset(text + 1, '\n', begin - 1);
		n = begin + sizeof tail - 1;
		memcpy(text + begin, tail, sizeof tail - 1);
		got = records(text, n);
		snprintf(quoted, sizeof quoted, "/%zu:q\"\r\n|2/", begin + 1);
		snprintf(last, sizeof last, "/%zu:last|x/", begin + 4);
		good &= strncmp(got, "1:|/", 4) == 0 && strstr(got, quoted) && strstr(got, last);
	}
	free(text);
	ok(good, "line ends and quotes that are cut by the end of a piece");
}

static void
test_long(void)
{
	size_t n = CSV_MAX_RECORD + 10;
	char *text = malloc(n);

	memset(text, 'x', n);
	text[1] = ',';
	ok(strstr(records(text, n), "x:1: the line is longer than 4 MiB"), "a line without end");
	text[0] = '"';
	ok(strstr(records(text, n), "x:1: a quote is not closed"), "a quote without end");
	memset(text, ',', n);
	ok(strstr(records(text, n), "x:1: the line has more than 262144 fields"),
	   "too many fields");
	free(text);
}

/* The data set in a text, or false and the error message. */
static bool
opens(const char *text, const struct dataset_options *o, struct dataset *ds, struct err *err)
{
	*err = (struct err){0};
	return dataset_open(put_text("t.csv", text), o, ds, err) == RC_OK;
}

static bool
refused(const char *text, const struct dataset_options *o, const char *want)
{
	return dataset_refused(put_text("t.csv", text), o, RC_BADDATA, want);
}

/* Split in half, so that both parts have samples; sums do not depend on the split. */
static const struct dataset_options half = {.train = 0.5, .test = 0.5};

/* The sum of feature f over the samples of a label, in both parts. */
static double
sum_of(const struct dataset *ds, uint8_t label, uint32_t f)
{
	const struct dataset_part *part[] = {&ds->train, &ds->test};
	double sum = 0;

	for (int p = 0; p < 2; p++)
		for (uint32_t i = 0; i < part[p]->nitems; i++)
			if (part[p]->labels[i] == label)
				sum += (double)((float *)part[p]->items)[i * ds->channels + f];
	return sum;
}

static bool
is_ab(const struct dataset *ds)
{
	return ds->dtype == GPUSIM_F32 && ds->channels == 2 && ds->rows == 1 && ds->cols == 1 &&
	       ds->nclasses == 2 && ds->train.nitems == 2 && ds->test.nitems == 2 &&
	       ds->class_name && strcmp(ds->class_name[0], "a") == 0 &&
	       strcmp(ds->class_name[1], "b") == 0 && sum_of(ds, 0, 0) == 4 &&
	       sum_of(ds, 0, 1) == 6 && sum_of(ds, 1, 0) == 12 && sum_of(ds, 1, 1) == 14;
}

/* The same table in many spellings: class a has (1,2) (3,4), class b has (5,6) (7,8). */
static void
test_columns(void)
{
	static const struct {
		const char *text, *label, *what;
	} row[] = {
	    {"1,2,a\n3,4,a\n5,6,b\n7,8,b\n", NULL, "no header, text last"},
	    {"a,1,2\na,3,4\nb,5,6\nb,7,8", NULL, "text first"},
	    {"1,a,2\n3,a,4\n5,b,6\n7,b,8", NULL, "text between"},
	    {"x,y,what\n1,2,a\n3,4,a\n5,6,b\n7,8,b\n", NULL, "a header, text last"},
	    {"Species;x;y\r\nb;5;6\r\na;1;2\r\na;3;4\r\nb;7;8\r\n", NULL, "named, semicolons"},
	    {"x\tLABEL\ty\n1\ta\t2\n3\ta\t4\n5\tb\t6\n7\tb\t8", NULL, "named in capitals, tabs"},
	    {"Id,x,y,kind\n1,1,2,a\n2,3,4,a\n3,5,6,b\n4,7,8,b\n", NULL, "rows that are numbered"},
	    {"\"\",\"x\",\"y\",\"class\"\n\"1\",1,2,\"a\"\n\"2\",3,4,\"a\"\n\"3\",5,6,\"b\"\n"
	     "\"4\",7,8,\"b\"\n",
	     NULL, "as R writes it"},
	    {"k,x,y\na,1,2\na,3,4\nb,5,6\nb,7,8", "k", "the label by name"},
	    {"a,1,2\na,3,4\nb,5,6\nb,7,8", "first", "the first is the label"},
	    {"1,2,a\n3,4,a\n5,6,b\n7,8,b\n", "last", "the last is the label"},
	};
	struct dataset ds;
	struct err err;

	for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
		struct dataset_options o = half;
		bool opened;

		o.label_column = row[i].label;
		opened = opens(row[i].text, &o, &ds, &err);
		ok(opened && is_ab(&ds), "%s %s", row[i].what, err.text);
		if (opened)
			dataset_fini(&ds);
	}
	put_gzip("t.csv", row[0].text, strlen(row[0].text));
	ok(dataset_open(in_folder("t.csv"), &half, &ds, &err) == RC_OK && is_ab(&ds), "gzipped");
	dataset_fini(&ds);
}

/* The labels of n samples in the order of their only feature, which is the sample's number. */
static bool
classes_are(const char *text, const char *labels, const char *const *names)
{
	struct dataset ds;
	struct err err;
	bool good = opens(text, &half, &ds, &err);

	if (!good) {
		printf("# %s\n", err.text);
		return false;
	}
	for (size_t i = 0; labels[i]; i++) {
		const struct dataset_part *part[] = {&ds.train, &ds.test};
		bool found = false;

		for (int p = 0; p < 2; p++)
			for (uint32_t k = 0; k < part[p]->nitems; k++)
				found |= ((float *)part[p]->items)[k] == (float)i &&
					 part[p]->labels[k] == labels[i] - '0';
		good &= found;
	}
	good &= !names == !ds.class_name;
	for (uint32_t i = 0; names && ds.class_name && i < ds.nclasses; i++)
		good &= strcmp(names[i], ds.class_name[i]) == 0;
	dataset_fini(&ds);
	return good;
}

static void
test_classes(void)
{
	ok(classes_are("0,2\n1,0\n2,1\n3,1\n", "2011", NULL), "0 to k-1 are the classes");
	ok(classes_are("0,1.0\n1,0.0\n2,1.0\n3,0\n", "1010", NULL), "whole numbers with a point");
	ok(classes_are("0,7\n1,10\n2,7\n3,-1\n", "1210", (const char *[]){"-1", "7", "10"}),
	   "others are sorted as numbers, and named");
	ok(classes_are("0,0\n1,5\n2,0\n3,5\n", "0101", (const char *[]){"0", "5"}),
	   "a gap behind the 0 too");
	ok(classes_are("0,7\n1,x10\n2,x9\n3,7\n", "0120", (const char *[]){"7", "x10", "x9"}),
	   "with text among them, as text");
	ok(classes_are("0,\"b, c\"\n1,a\n2,a\n3,\"b, c\"\n", "1001", (const char *[]){"a", "b, c"}),
	   "a quoted comma");
}

/* side x side pixels with some channels: value (i + k) % 256 of sample i; labels 0 and 1. */
static char *
pixels(uint32_t side, uint32_t channels, bool header, bool first)
{
	uint32_t n = side * side * channels;
	char *text = malloc(64 + 12 * n * 5), *p = text;

	for (uint32_t k = 0; header && k < n; k++)
		p += sprintf(p, "pixel%04u,", k);
	if (header)
		p += sprintf(p, "label\n");
	for (uint32_t i = 0; i < 4; i++) {
		if (first)
			p += sprintf(p, "%u,", i % 2);
		for (uint32_t k = 0; k < n; k++)
			p += sprintf(p, "%s%u", k ? "," : "", k == 0 ? i : (i + k) % 256);
		p += sprintf(p, first ? "\n" : ",%u\n", i % 2);
	}
	return text;
}

static bool
pixels_are(const struct dataset *ds, uint32_t side, uint32_t channels)
{
	const struct dataset_part *part[] = {&ds->train, &ds->test};
	uint32_t seen = 0, plane = side * side;
	bool good = ds->dtype == GPUSIM_U8 && ds->channels == channels && ds->rows == side &&
		    ds->cols == side && ds->nclasses == 2 && !ds->class_name;

	for (int p = 0; p < 2 && good; p++)
		for (uint32_t s = 0; s < part[p]->nitems; s++) {
			const uint8_t *item = (uint8_t *)part[p]->items + s * plane * channels;
			uint32_t i = item[0];

			seen |= 1u << i;
			good &= part[p]->labels[s] == i % 2;
			for (uint32_t c = 0; c < channels; c++)
				for (uint32_t k = c == 0; k < plane; k++)
					good &= item[c * plane + k] == (i + k * channels + c) % 256;
		}
	return good && seen == 15;
}

static void
test_pixels(void)
{
	static const struct {
		uint32_t side, channels;
		bool header, first;
		const char *what;
	} row[] = {{28, 1, true, false, "28x28 with a header"},
		   {28, 3, true, false, "28x28x3: interleaved becomes planes"},
		   {28, 1, false, true, "no header, the label first, as MNIST as CSV has it"},
		   {8, 1, true, false, "8x8"},
		   {4, 1, true, false, "4x4, by the names"}};
	struct dataset ds;
	struct err err;
	char *text;

	for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
		bool opened;

		text = pixels(row[i].side, row[i].channels, row[i].header, row[i].first);
		opened = opens(text, &half, &ds, &err);
		ok(opened && pixels_are(&ds, row[i].side, row[i].channels), "pixels: %s %s",
		   row[i].what, err.text);
		if (opened)
			dataset_fini(&ds);
		free(text);
	}
	text = pixels(28, 1, true, false);
	strstr(text, ",100,")[1] = '9';
	ok(opens(text, &half, &ds, &err) && ds.dtype == GPUSIM_F32 && ds.channels == 784,
	   "a value that is no byte makes features of all %s", err.text);
	dataset_fini(&ds);
	free(text);
	text = pixels(4, 1, false, false);
	ok(opens(text, &half, &ds, &err) && ds.dtype == GPUSIM_F32 && ds.channels == 16,
	   "16 bytes without such names are features %s", err.text);
	dataset_fini(&ds);
	free(text);
}

/* Pixels without a header, with the label last and a constant first pixel. */
static void
test_label_behind_pixels(void)
{
	char text[4096], *p = text;
	struct dataset ds;
	struct err err;
	bool opened;

	for (uint32_t i = 0; i < 4; i++) {
		for (uint32_t k = 0; k < 64; k++)
			p += sprintf(p, "%u,", k ? (k + i) % 17 : 0);
		p += sprintf(p, "%u\n", i);
	}
	opened = opens(text, &half, &ds, &err);
	ok(opened && ds.dtype == GPUSIM_U8 && ds.rows == 8 && ds.nclasses == 4,
	   "pixels without a header, the label behind them %s", err.text);
	if (opened)
		dataset_fini(&ds);
}

static void
test_refusals(void)
{
	static const struct dataset_options named = {.label_column = "kind"};
	static const struct {
		const char *text, *want;
	} row[] = {
	    {"", "t.csv: no samples"},
	    {"\n\n", "t.csv: no samples"},
	    {"x,y,label\n", "t.csv: no samples"},
	    {"1\n2\n", "t.csv:1: a table needs two columns"},
	    {"1,2,a\n3,4,b\n5,b\n", "t.csv:3: 2 fields; the lines before have 3"},
	    {"x,y,label\n1,2,3,0\n", "t.csv:2: 4 fields; the lines before have 3"},
	    {"1,2,a\n\n3,,b\n", "t.csv:3: column 2 is empty"},
	    {"x,y,label\n1,2,a\n3,4,\n", "t.csv:3: column 'label' is empty"},
	    {"1,2,a\n3,nan,b\n", "t.csv:2: column 2: 'nan' is not finite"},
	    {"1,-inf,a\n3,2,b\n", "t.csv:1: column 2: '-inf' is not finite"},
	    {"1,2,a\n3,1e99,b\n", "t.csv:2: column 2: '1e99' is too large for f32"},
	    {"x,y,label\n1,2,a\n3,four,b\n", "t.csv:3: column 'y': 'four' is not a number"},
	    {"1,2,a\n3,4\x01,b\n", "t.csv:2: column 2: '4?' is not a number"},
	    {"x,y,z\n1,u,a\n", "t.csv:2: column 'y' and column 'z' are text, but only the label"},
	    {"1,2,a\n3,4,\"b\nc\"\n", "t.csv:2: column 3: 'b?c' is not the name of a class"},
	    {"1,2,0.5\n3,4,0.25\n",
	     "the numbers in column 3 are not whole, so they are not classes"},
	    {"1,2,a\n3,4,a\n", "column 3 has only one class"},
	    {"1,2,a\n3,4,\"b\n", "t.csv:2: a quote is not closed"},
	    {"\x89PNG\r\n\x1a\n1,2", "t.csv:"},
	    {"\xff\xfe"
	     "1,2",
	     "t.csv: the text is UTF-16; convert it to UTF-8"},
	};
	char text[8192], *p = text;

	for (size_t i = 0; i < sizeof row / sizeof row[0]; i++)
		ok(refused(row[i].text, NULL, row[i].want), "refused: %s", row[i].want);
	ok(refused("x,y,label\n1,2,a\n3,4,b\n", &named, "no column has the name 'kind'"),
	   "no such column");
	ok(refused("1,2,a\n3,4,b\n", &named,
		   "no column has the name 'kind': the file has no header"),
	   "a column by name, and no header");
	for (int i = 0; i < 60; i++)
		p += sprintf(p, "%d,%d,%d\n", i % 3, i, i % 20 + 400);
	ok(refused(text, NULL,
		   "column 3 has 20 classes in 60 samples: is another column the label"),
	   "a measure in the last column");
	p = text;
	for (int i = 0; i < 257; i++)
		p += sprintf(p, "%d,%d,c%d\n", i, i, i);
	ok(refused(text, NULL, "t.csv:257: column 3 has more than 256 classes"), "257 classes");
	p = text + sprintf(text, "1,2,a\n3,4,");
	memset(p, 'b', 129);
	strcpy(p + 129, "\n");
	ok(refused(text, NULL, "is too long for a class"), "a class of 129 bytes");
}

/* In a message, a text is cut between characters. */
static void
test_show(void)
{
	char shown[CSV_SHOW], text[64];

	for (size_t i = 0; i < 60; i += 2)
		memcpy(text + i, "\xc3\xa4", 2);
	ok(strlen(csv_show(&(struct csv_field){text, 60}, shown)) == CSV_SHOW - 2,
	   "46 of 60 bytes");
	ok(strcmp(csv_show(&(struct csv_field){"a\tb\x7f"
					       "c",
					       5},
			   shown),
		  "a?b?c") == 0,
	   "control characters");
}

static void
test_folder_of_tables(void)
{
	static const char train[] = "x,label\n1,cat\n2,dog\n3,ant\n", test[] = "x,label\n9,dog\n";
	struct dataset ds;
	struct err err = {0};

	put_dir("tables");
	put_gzip("tables/train.csv.gz", train, sizeof train - 1);
	ok(dataset_open(in_folder("tables"), &half, &ds, &err) == RC_OK && ds.train.nitems == 1 &&
	       ds.test.nitems == 2,
	   "train.csv.gz alone is split %s", err.text);
	dataset_fini(&ds);
	put_text("tables/test.csv", test);
	ok(dataset_open(in_folder("tables"), NULL, &ds, &err) == RC_OK && ds.train.nitems == 3 &&
	       ds.test.nitems == 1 && ds.nclasses == 3 && ds.test.labels[0] == 2 &&
	       strcmp(ds.class_name[2], "dog") == 0 && *(float *)ds.test.items == 9,
	   "train.csv and test.csv share their classes %s", err.text);
	dataset_fini(&ds);
	put_text("tables/test.csv", "x,y,label\n9,8,dog\n");
	ok(dataset_open(in_folder("tables"), NULL, &ds, &err) == RC_BADDATA &&
	       strstr(err.text, "test.csv:2: 3 fields, but"),
	   "another number of columns: %s", err.text);
	put_text("tables/test.csv", "y,label\n9,dog\n");
	ok(dataset_open(in_folder("tables"), NULL, &ds, &err) == RC_BADDATA &&
	       strstr(err.text, "has column 'y' where") && strstr(err.text, "has column 'x'"),
	   "other columns: %s", err.text);
	take_away("tables/train.csv.gz");
	ok(dataset_open(in_folder("tables"), &(struct dataset_options){.format = DATASET_CSV}, &ds,
			&err) == RC_FAILED &&
	       strstr(err.text, "train.csv not found"),
	   "no train.csv: %s", err.text);
}

/* Fisher's irises: 150, 50 of each species, with the means of his paper. */
static void
test_iris(void)
{
	struct dataset ds = {0};
	struct err err = {0};
	double sum[4] = {0};
	uint32_t count[3] = {0};
	bool opened = dataset_open("examples/data/iris.csv", NULL, &ds, &err) == RC_OK;

	ok(opened && ds.channels == 4 && ds.nclasses == 3 && ds.train.nitems == 120 &&
	       ds.test.nitems == 30 && strcmp(ds.class_name[0], "setosa") == 0 &&
	       strcmp(ds.class_name[2], "virginica") == 0,
	   "iris.csv is read and split %s", err.text);
	if (!opened)
		return;
	for (uint8_t l = 0; l < 3; l++)
		for (uint32_t f = 0; f < 4; f++)
			sum[f] += sum_of(&ds, l, f);
	for (uint32_t i = 0; i < 120; i++)
		count[ds.train.labels[i]]++;
	for (uint32_t i = 0; i < 30; i++)
		count[ds.test.labels[i]]++;
	ok(fabs(sum[0] - 876.5) < 1e-3 && fabs(sum[1] - 458.6) < 1e-3 &&
	       fabs(sum[2] - 563.7) < 1e-3 && fabs(sum[3] - 179.9) < 1e-3 && count[0] == 50 &&
	       count[1] == 50 && count[2] == 50,
	   "150 flowers, 50 of each, with the means 5.843, 3.057, 3.758, 1.199");
	dataset_fini(&ds);
}

int
main(void)
{
	if (folder_begin() != 0) {
		ok(false, "a folder for the files");
		return tap_done();
	}
	test_decimals();
	test_exact();
	test_whole();
	test_records();
	test_pieces();
	test_long();
	test_columns();
	test_classes();
	test_pixels();
	test_label_behind_pixels();
	test_refusals();
	test_show();
	test_folder_of_tables();
	test_iris();
	ok(folder_end() == 0, "the folder is gone");
	return tap_done();
}
