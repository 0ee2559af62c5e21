/*
 * Algorithms by name: NCCL_ALGO and NCCL_TUNER_CONFIG_FILE. Where neither names an algorithm the
 * devices choose, by the coordinator's table. All ranks must have the same values, as in NCCL.
 */
#include "nccl/algos.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "coll/tune.h"
#include "nccl/nccl_impl.h"

struct nccl_algos {
	struct tuner tuner, plain; /* plain: as if neither was set */
	struct tune_files files;   /* the coordinator's */
	bool msccl;		   /* NCCL_ALGO allows the algorithms of MSCCL_XML_FILES */
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

/* Copy one list, from `from` to `end`. */
static bool
add_list(const char *from, const char *end, struct buf *out, bool *gone, bool *msccl)
{
	const char *colon = memchr(from, ':', (size_t)(end - from));
	const char *p = colon ? colon + 1 : from;
	bool without = p < end && *p == '^', good = true;
	size_t kept = 0, begun = out->len;
	bool said = false;

	p += without;
	good = (!out->len || buf_add(out, ";", 1)) && buf_add(out, from, (size_t)(p - from));
	while (p < end && good) {
		const char *comma = memchr(p, ',', (size_t)(end - p)), *stop = comma ? comma : end;

		if (stop - p == 5 && strncmp(p, "msccl", 5) == 0)
			said = true;
		else if (!is_of_gpus(p, (size_t)(stop - p)))
			good = (!kept++ || buf_add(out, ",", 1)) &&
			       buf_add(out, p, (size_t)(stop - p));
		p = comma ? comma + 1 : end;
	}
	if (!kept)
		out->len = begun;
	*gone |= !kept && !without && !said;
	*msccl |= said && !without;
	return good;
}

bool
nccl_algo_text(const char *text, struct buf *out, bool *gone, bool *msccl)
{
	char *lower = strdup(text);
	bool good = lower != NULL;

	*gone = *msccl = false;
	for (char *p = lower; p && *p; p++)
		*p = (char)tolower((unsigned char)*p);
	for (const char *p = lower; good && *p;) {
		const char *end = p + strcspn(p, ";");

		if (end > p)
			good = add_list(p, end, out, gone, msccl);
		p = *end ? end + 1 : end;
	}
	free(lower);
	return good && buf_addf(out, "%s", "");
}

static struct nccl_algos algos;
static bool said;

static void
warn_of_names(const char *why)
{
	struct buf names = {0};

	for (const struct plan_algo *row = plan_algos; row->name; row++)
		buf_addf(&names, "%s%s:%s", names.len ? " " : "", coll_name(row->coll), row->name);
	nccl_log_waiting(-1, "NCCL_ALGO : %s; available are %s", why, names.data ? names.data : "");
	buf_fini(&names);
}

static void
read_environment(void)
{
	const char *algo = getenv("NCCL_ALGO"), *path = getenv("NCCL_TUNER_CONFIG_FILE");
	struct buf lists = {0};
	struct err err = {0};
	bool gone;

	said = (algo && *algo) || (path && *path);
	tuner_init(&algos.tuner);
	tuner_init(&algos.plain);
	algos.tuner.takes_files = algos.plain.takes_files = true;
	algos.msccl = true;
	if (algo && *algo) {
		if (!nccl_algo_text(algo, &lists, &gone, &algos.msccl))
			nccl_log_waiting(-1, "NCCL_ALGO : out of memory");
		else if (tuner_select(&algos.tuner, lists.data, &err) != RC_OK)
			warn_of_names(err.text);
		else if (gone)
			warn_of_names("algorithms that exist only on GPUs are ignored");
		buf_fini(&lists);
	}
	if (path && *path && tuner_configure(&algos.tuner, NULL, path, &err) != RC_OK)
		nccl_log_waiting(-1, "NCCL_TUNER_CONFIG_FILE : %s", err.text);
}

const struct nccl_algos *
nccl_algos(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, read_environment);
	return said ? &algos : NULL;
}

/* ---- algorithms from files */

static void
keep(const struct gpusim_algo *from)
{
	struct tune_file *v = alloc_resize(algos.files.v, algos.files.n + 1, sizeof *v);

	if (!v || tune_file_find(&algos.files, from->name)) {
		algos.files.v = v ? v : algos.files.v;
		return;
	}
	algos.files.v = v;
	v[algos.files.n] = (struct tune_file){.coll = from->coll,
					      .nranks = from->nranks,
					      .root = from->root,
					      .min_bytes = from->min_bytes,
					      .max_bytes = from->max_bytes};
	snprintf(v[algos.files.n++].name, sizeof v->name, "%s", from->name);
}

/* Calls of its collective use the algorithm where it fits, before all others, as in NCCL's MSCCL fork. An
 * invalid file is skipped with a warning, as there. */
static void
add_file(struct gpusim *g, const char *path)
{
	struct gpusim_algo_config cfg = {GPUSIM_ALGO_CONFIG_INIT, .life = GPUSIM_LEASE,
					 .path = path};
	struct tune_select *s = algos.tuner.select;
	struct gpusim_algo algo;
	struct buf text = {0};
	struct err err = {0};

	if (file_text(path, "an algorithm's file", &text, &err) != RC_OK)
		nccl_log_waiting(-1, "MSCCL_XML_FILES : %s; it is not used", err.text);
	else if (gpusim_algo_add(g, text.data, strlen(text.data), &cfg, &algo) != GPUSIM_OK)
		nccl_log_waiting(-1, "MSCCL_XML_FILES : %s; it is not used", gpusim_error());
	else {
		s += algo.coll;
		keep(&algo);
		if (s->nfiles == TUNE_MAX_FILES)
			nccl_log_waiting(
			    -1, "MSCCL_XML_FILES : more than %d algorithms of %s: %s is not used",
			    TUNE_MAX_FILES, coll_name(algo.coll), algo.name);
		else
			snprintf(s->file[s->nfiles++], sizeof s->file[0], "%s", algo.name);
	}
	buf_fini(&text);
}

/* Keep the names that the coordinator has for a collective, in its spelling. An empty result means
 * that NCCL_ALGO is not set. */
static void
resolve(enum gpusim_coll coll, char missing[static TUNE_FILE_NAME])
{
	struct tune_select *s = &algos.tuner.select[coll];
	unsigned n = 0, was = s->nfiles;

	for (unsigned i = 0; i < was; i++) {
		size_t k = 0;

		while (k < algos.files.n && strcasecmp(algos.files.v[k].name, s->file[i]) != 0)
			k++;
		if (k < algos.files.n)
			snprintf(s->file[n++], sizeof s->file[0], "%s", algos.files.v[k].name);
		else
			snprintf(missing, TUNE_FILE_NAME, "%s", s->file[i]);
	}
	s->nfiles = n;
	if (!n && !s->allowed)
		*s = algos.plain.select[coll];
}

static void
find_listed(struct gpusim *g)
{
	char missing[TUNE_FILE_NAME] = "", why[TUNE_FILE_NAME + 32];
	struct gpusim_algo *v = NULL;
	bool listed = false;
	size_t n = 0;

	for (int c = 0; c < GPUSIM_NCOLLS; c++)
		listed |= algos.tuner.select[c].nfiles > 0;
	for (size_t i = 0; i < algos.tuner.nrules; i++)
		listed |= algos.tuner.rule[i].file != NULL;
	if (!listed)
		return;
	if (gpusim_algo_list(g, &v, &n) != GPUSIM_OK)
		n = 0;
	for (size_t i = 0; i < n; i++)
		keep(&v[i]);
	gpusim_algo_list_free(v);
	for (int c = 0; c < GPUSIM_NCOLLS; c++)
		resolve((enum gpusim_coll)c, missing);
	if (!*missing)
		return;
	snprintf(why, sizeof why, "unknown algorithm '%s'", missing);
	warn_of_names(why);
}

void
nccl_algos_load(struct gpusim *g)
{
	const char *paths = getenv("MSCCL_XML_FILES");
	char *copy, *rest, *path;

	nccl_algos();
	find_listed(g);
	if (!paths || !*paths || !algos.msccl)
		return;
	copy = rest = strdup(paths);
	while (rest && (path = strsep(&rest, ":;")))
		if (*path)
			add_file(g, path);
	free(copy);
	said |= algos.files.n > 0;
}

uint8_t
nccl_algo(const struct nccl_algos *a, int transport, uint32_t nranks, enum gpusim_coll coll,
	  uint32_t root, uint64_t nbytes, bool canonical, uint16_t *mark)
{
	struct tune_ask ask = {.args = {.coll = coll,
					.dtype = GPUSIM_U8,
					.nranks = nranks,
					.root = root,
					.nelem = nbytes,
					.canonical = canonical},
			       .transport = (enum tune_transport)transport,
			       .files = &a->files};
	struct tune_answer answer;

	if (tuner_choose(&a->tuner, &ask, &answer, NULL) != RC_OK ||
	    (answer.by != TUNE_BY_FILE && !answer.file &&
	     a->tuner.select[coll].allowed == a->plain.select[coll].allowed))
		return 0;
	if (answer.file)
		*mark = cmdq_algo_mark(answer.file->name);
	return (uint8_t)(plan_algo_number(answer.algo) + 1);
}
