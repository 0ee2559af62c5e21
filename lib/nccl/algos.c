/*
 * Algorithms by name: NCCL_ALGO and NCCL_TUNER_CONFIG_FILE. Where they say nothing the devices choose, by the
 * coordinator's table. All ranks must have the same values, as in NCCL.
 */
#include "nccl/algos.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "coll/tune.h"
#include "nccl/nccl_impl.h"

struct nccl_algos {
	struct tuner tuner, plain; /* plain: as if nothing was said */
};

static bool
is_of_gpus(const char *word, size_t n)
{
	static const char *const words[] = {"collnetdirect", "collnetchain", "nvls", "nvlstree",
					    "pat"};

	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (strlen(words[i]) == n && strncmp(words[i], word, n) == 0)
			return true;
	return false;
}

/* One list, from `from` to `end`. */
static bool
add_list(const char *from, const char *end, struct buf *out, bool *gone)
{
	const char *colon = memchr(from, ':', (size_t)(end - from));
	const char *p = colon ? colon + 1 : from;
	bool without = p < end && *p == '^', good = true;
	size_t kept = 0, begun = out->len;

	p += without;
	good = (!out->len || buf_add(out, ";", 1)) && buf_add(out, from, (size_t)(p - from));
	while (p < end && good) {
		const char *comma = memchr(p, ',', (size_t)(end - p)), *stop = comma ? comma : end;

		if (!is_of_gpus(p, (size_t)(stop - p)))
			good = (!kept++ || buf_add(out, ",", 1)) &&
			       buf_add(out, p, (size_t)(stop - p));
		p = comma ? comma + 1 : end;
	}
	if (!kept)
		out->len = begun;
	*gone |= !kept && !without;
	return good;
}

bool
nccl_algo_text(const char *text, struct buf *out, bool *gone)
{
	char *lower = strdup(text);
	bool good = lower != NULL;

	*gone = false;
	for (char *p = lower; p && *p; p++)
		*p = (char)tolower((unsigned char)*p);
	for (const char *p = lower; good && *p;) {
		const char *end = p + strcspn(p, ";");

		if (end > p)
			good = add_list(p, end, out, gone);
		p = *end ? end + 1 : end;
	}
	free(lower);
	return good && buf_addf(out, "%s", "");
}

static struct nccl_algos algos;
static bool said, deterministic;

static void
warn_of_names(const char *why)
{
	struct buf names = {0};

	for (const struct plan_algo *row = plan_algos; row->name; row++)
		buf_addf(&names, "%s%s:%s", names.len ? " " : "", coll_name(row->coll), row->name);
	nccl_log_waiting(-1, "NCCL_ALGO : %s; there are %s", why, names.data ? names.data : "");
	buf_fini(&names);
}

static void
read_algo(const char *text)
{
	struct buf lists = {0};
	struct err err = {0};
	bool gone;

	if (!nccl_algo_text(text, &lists, &gone))
		nccl_log_waiting(-1, "NCCL_ALGO : out of memory");
	else if (tuner_select(&algos.tuner, lists.data, &err) != RC_OK)
		warn_of_names(err.text);
	else if (gone)
		warn_of_names("algorithms that only GPUs have are passed over");
	buf_fini(&lists);
}

static void
read_environment(void)
{
	const char *algo = getenv("NCCL_ALGO"), *path = getenv("NCCL_TUNER_CONFIG_FILE");
	const char *same = getenv("GPUSIM_DETERMINISTIC");
	struct err err = {0};

	deterministic = same && *same && strcmp(same, "0") != 0;
	said = (algo && *algo) || (path && *path);
	if (!said)
		return;
	tuner_init(&algos.tuner);
	tuner_init(&algos.plain);
	if (algo)
		read_algo(algo);
	if (path && tuner_configure(&algos.tuner, NULL, path, &err) != RC_OK)
		nccl_log_waiting(-1, "NCCL_TUNER_CONFIG_FILE : %s", err.text);
}

const struct nccl_algos *
nccl_algos(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, read_environment);
	return said ? &algos : NULL;
}

bool
nccl_deterministic(void)
{
	nccl_algos();
	return deterministic;
}

uint8_t
nccl_algo(const struct nccl_algos *a, int transport, uint32_t nranks, enum gpusim_coll coll,
	  uint64_t nbytes, bool canonical)
{
	struct tune_ask ask = {.coll = coll,
			       .transport = (enum tune_transport)transport,
			       .nranks = nranks,
			       .nbytes = nbytes,
			       .canonical = canonical};
	struct tune_answer answer;

	if (tuner_choose(&a->tuner, &ask, &answer, NULL) != RC_OK ||
	    (answer.by != TUNE_BY_FILE &&
	     a->tuner.select[coll].allowed == a->plain.select[coll].allowed))
		return 0;
	return (uint8_t)(plan_algo_number(answer.algo) + 1);
}
