#include "compare.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/must.h"
#include "child.h"
#include "train/compare.h"

#define MAX_ARGS   128
#define NO_PROGRAM 127
#define RESULT_MAX (256u << 20) /* most bytes of a program's result file */

struct comparison {
	const struct train_config *config;
	const char *self, *prefix;
	struct children children;
	struct compare c;
	unsigned failures;
	char dir[48]; /* of temporary files */
	char json[64], out[64], err[64];
};

static void
name_file(const struct comparison *s, const char *name, char path[64])
{
	snprintf(path, 64, "%s/%s", s->dir, name);
}

static enum rc
make_folder(struct comparison *s, struct err *err)
{
	const char *base = getenv("TMPDIR");

	if (!base || strlen(base) > 24)
		base = "/tmp";
	snprintf(s->dir, sizeof s->dir, "%s/gpusim.cmp.XXXXXX", base);
	if (!mkdtemp(s->dir)) {
		enum rc rc = err_set(err, RC_FAILED, "%s: %s", s->dir, strerror(errno));

		s->dir[0] = '\0';
		return rc;
	}
	name_file(s, "json", s->json);
	name_file(s, "out", s->out);
	name_file(s, "err", s->err);
	return RC_OK;
}

static void
remove_folder(const struct comparison *s)
{
	if (!s->dir[0])
		return;
	unlink(s->json);
	unlink(s->out);
	unlink(s->err);
	rmdir(s->dir);
}

/* Check that files can be made there, before hours are spent. */
static enum rc
check_prefix(const char *prefix, struct err *err)
{
	char *folder = must_strdup(prefix), *slash;
	enum rc rc = RC_OK;

	slash = strrchr(folder, '/');
	if (slash)
		slash[slash == folder] = '\0';
	if (!*prefix || prefix[strlen(prefix) - 1] == '/')
		rc = err_set(err, RC_INVAL, "--out: '%s' is not the beginning of a file's name",
			     prefix);
	else if (access(slash ? folder : ".", W_OK | X_OK) != 0)
		rc =
		    err_set(err, RC_FAILED, "--out: %s: %s", slash ? folder : ".", strerror(errno));
	free(folder);
	return rc;
}

static enum rc
check_options(const struct train_config *o, struct err *err)
{
	const char *name = NULL;

	if (o->json)
		name = "--json";
	else if (o->plot)
		name = "--plot";
	else if (o->save)
		name = "--save";
	else if (o->checkpoint)
		name = "--checkpoint";
	else if (o->trace)
		name = "--trace";
	else if (o->epochs == 0)
		return err_set(err, RC_INVAL, "--compare: needs --epochs of at least 1");
	return name ? err_set(err, RC_INVAL, "%s: cannot be combined with --compare", name) : RC_OK;
}

/* Make the command line of a run; options, which the caller frees, own the arguments. */
static enum rc
make_args(const struct comparison *s, const struct compare_run *r, char number[16],
	  const char *args[MAX_ARGS], char ***options, struct err *err)
{
	struct train_config config = *s->config;
	size_t n = 0;
	enum rc rc;

	compare_config(r, s->json, &config);
	rc = config_args(&config, NULL, options, err);
	if (rc != RC_OK)
		return rc;
	snprintf(number, 16, "%" PRIu32, r->workers);
	if (config.backend == BACKEND_MPI) {
		args[n++] = "mpirun";
		args[n++] = "-n";
		args[n++] = number;
	}
	args[n++] = s->self;
	for (char **o = *options; *o && n < MAX_ARGS - 1; o++)
		args[n++] = *o;
	args[n] = NULL;
	return RC_OK;
}

/* Return true if a line has text: some programs draw frames around their messages. */
static bool
says_something(const char *line)
{
	return line[strspn(line, "- \t")] != '\0';
}

/* Find the reason of a program's failure: our own last line, else anyone's first line. */
static void
reason(const struct comparison *s, int status, char out[256])
{
	FILE *f = fopen(s->err, "re");
	static const char own[] = "mnist-train: ";
	bool any = false;
	char line[512];

	if (status > 128)
		snprintf(out, 256, "ended by signal %d", status - 128);
	else
		snprintf(out, 256, "exit status %d", status);
	while (f && fgets(line, sizeof line, f)) {
		bool mine = strncmp(line, own, strlen(own)) == 0;

		line[strcspn(line, "\n")] = '\0';
		if (!says_something(line) || (any && !mine))
			continue;
		any = true;
		snprintf(out, 256, "%.250s", line + (mine ? strlen(own) : 0));
	}
	if (f)
		fclose(f);
}

static enum rc
train(struct comparison *s, const struct compare_run *r, struct err *err)
{
	const char *args[MAX_ARGS];
	char number[16], words[256], **options;
	int status;
	enum rc rc = make_args(s, r, number, args, &options, err);

	if (rc != RC_OK)
		return rc;
	unlink(s->json);
	status = children_run(&s->children, (char *const *)args, s->out, s->err, 0);
	option_args_free(options);
	if (status == NO_PROGRAM && r->method == COMPARE_MPI)
		return err_set(err, RC_FAILED, "mpirun was not found");
	if (status == 0)
		return RC_OK;
	reason(s, status, words);
	return err_set(err, RC_FAILED, "%s", words);
}

static enum rc
run_one(struct comparison *s, struct compare_run *r, struct err *err)
{
	struct buf json = {0};
	enum rc rc = train(s, r, err);

	if (rc == RC_OK)
		rc = file_bytes(s->json, RESULT_MAX, &json, err);
	if (rc == RC_OK)
		rc = compare_read(r, json.data, err);
	buf_fini(&json);
	return rc;
}

static void
run_all(struct comparison *s)
{
	for (size_t i = 0; i < s->c.nruns && !children_caught(&s->children); i++) {
		struct compare_run *r = &s->c.run[i];
		const char *name = compare_method_name(r->method),
			   *many = r->workers == 1 ? "" : "s";
		struct err err = {0};

		fprintf(stderr, "%s, %" PRIu32 " worker%s (%zu of %zu): ", name, r->workers, many,
			i + 1, s->c.nruns);
		if (run_one(s, r, &err) == RC_OK) {
			const struct compare_epoch *e = &r->epoch[r->nepochs - 1];

			fprintf(stderr, "test accuracy %.2f %%, %.2f s\n", e->accuracy * 100,
				e->seconds);
		} else if (s->children.caught) {
			fprintf(stderr, "ended\n");
		} else {
			fprintf(stderr, "failed\n");
			s->failures++;
			log_line(LOG_ERROR, "%s, %" PRIu32 " worker%s: %s", name, r->workers, many,
				 err.text);
		}
	}
}

static enum rc
write_csv(const struct comparison *s, struct err *err)
{
	struct buf text = {0};
	char *path = must_printf("%s.csv", s->prefix);
	enum rc rc;

	compare_csv(&s->c, &text);
	rc = file_replace(path, text.data, text.len, err);
	buf_fini(&text);
	free(path);
	return rc;
}

static enum rc
write_png(struct comparison *s, const struct plot *plot, struct err *err)
{
	char *path;
	enum rc rc;

	if (!plot_has_points(plot))
		return RC_OK;
	path = must_printf("%s.png", s->prefix);
	rc = plot_save(plot, path, err);
	if (rc == RC_NOTFOUND)
		log_line(LOG_WARN, "gnuplot not found: %s is not written", path);
	free(path);
	children_caught(&s->children);
	return rc == RC_NOTFOUND ? RC_OK : rc;
}

static enum rc
print(const struct comparison *s, const struct plot *plot, struct err *err)
{
	struct buf text = {0};
	enum rc rc = RC_OK;

	compare_rounding(&s->c, &text);
	compare_table(&s->c, &text);
	plot_text(plot, PLOT_ROWS, &text);
	if (fwrite(text.data, 1, text.len, stdout) != text.len || fflush(stdout) != 0 ||
	    close(STDOUT_FILENO) != 0)
		rc = err_set(err, RC_FAILED, "standard output: %s", strerror(errno));
	buf_fini(&text);
	return rc;
}

/* Check everything that can be wrong, before the first run. */
static enum rc
plan(struct comparison *s, const struct train_config *o, bool batchnorm, struct err *err)
{
	struct compare_request request = {0};
	enum rc rc = compare_methods_parse(o->compare, &request, err);

	if (rc != RC_OK)
		return err_prefix(err, "--compare");
	rc = compare_workers(o->workers, o->nworkers, &request, err);
	if (rc != RC_OK)
		return err_prefix(err, "--workers");
	rc = check_options(o, err);
	if (rc == RC_OK)
		rc = check_prefix(s->prefix, err);
	if (rc == RC_OK)
		rc = compare_plan(&request, o->batch, &s->c, err);
	if (rc == RC_OK)
		compare_judge(&s->c, o, batchnorm);
	return rc == RC_OK ? make_folder(s, err) : rc;
}

static void
note(enum rc rc, const struct err *err, enum rc *worst)
{
	if (rc == RC_OK)
		return;
	log_line(LOG_ERROR, "%s", err->text);
	*worst = rc;
}

/* Write and print the results when all runs have ended. */
static void
tell(struct comparison *s, enum rc *worst)
{
	struct plot plot = {0};
	struct err err = {0};

	compare_speedups(&s->c);
	note(write_csv(s, &err), &err, worst);
	compare_plot(&s->c, &plot);
	if (!s->children.caught)
		note(write_png(s, &plot, &err), &err, worst);
	remove_folder(s);
	note(print(s, &plot, &err), &err, worst);
	plot_fini(&plot);
}

int
compare_main(const struct train_config *o, bool batchnorm, const char *self)
{
	struct comparison s = {.config = o, .self = self, .prefix = o->out ? o->out : "compare"};
	struct err err = {0};
	enum rc rc = plan(&s, o, batchnorm, &err), worst = RC_OK;
	int exit_code;

	note(rc, &err, &worst);
	if (rc == RC_OK) {
		/* Allow more ranks than processors, and give each run its own coordinator. */
		unsetenv("GPUSIM_COORD");
		setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 0);
		setenv("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe", 0);
		children_begin(&s.children);
		run_all(&s);
		tell(&s, &worst);
	}
	exit_code = rc_exit(worst);
	if (worst == RC_OK && s.failures)
		exit_code = EXIT_FAILED;
	if (s.children.caught)
		exit_code = 128 + s.children.caught;
	compare_fini(&s.c);
	return exit_code;
}
