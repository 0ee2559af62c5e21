/*
 * gpuctl nccl-home, run --nccl - the folder with the names that programs written for NCCL and CUDA look for:
 * include, lib, lib64, bin.
 *
 * It is searched for from this program's own folder, so that a moved tree works. In the build it is beside
 * bin. Installed, it is below LIBDIR, to which make install makes a link in PREFIX/share/gpusim.
 */
#include "home.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/host.h"
#include "base/json.h"
#include "base/env.h"
#include "base/must.h"
#include "cli.h"

static const char *const places[] = {"../nccl", "../share/gpusim/nccl"};

static bool
is_home(const char *folder)
{
	char library[PATH_MAX + 32];

	snprintf(library, sizeof library, "%s/lib/libnccl.so.2", folder);
	return access(library, R_OK) == 0;
}

/* Find the home that belongs to this gpuctl, as an absolute path without links. RC_FAILED: not found. */
static enum rc
home_find(char out[PATH_MAX], struct err *err)
{
	char own[PATH_MAX], path[PATH_MAX + 32];

	if (!host_own_folder(own, sizeof own))
		return err_set(err, RC_FAILED, "cannot find the folder of gpuctl in /proc");
	for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
		snprintf(path, sizeof path, "%s/%s", own, places[i]);
		if (realpath(path, out) && is_home(out))
			return RC_OK;
	}
	return err_set(err, RC_FAILED,
		       "no libnccl.so.2 in %.200s/%s/lib, or %s/lib next to it; `make` builds it",
		       own, places[0], places[1]);
}

/* Prepend FOLDER/SUB to a list with colons. */
static void
put_first(const char *name, const char *folder, const char *sub)
{
	const char *old = getenv(name);
	struct buf list = {0};

	must_addf(&list, old && *old ? "%s/%s:%s" : "%s/%s", folder, sub, old);
	must(setenv(name, list.data, 1) == 0);
	buf_fini(&list);
}

/* Add to the end of a list with colons. */
static void
put_last(const char *name, const char *what)
{
	const char *old = getenv(name);
	struct buf list = {0};

	must_addf(&list, "%s%s%s", old ? old : "", old && *old ? ":" : "", what);
	must(setenv(name, list.data, 1) == 0);
	buf_fini(&list);
}

/* In the build the package is in ../python; installed, in PYTHONDIR, to which make install makes links. */
enum rc
home_name_python(bool hook, struct err *err)
{
	static const char *const folders[] = {"../python", "../share/gpusim/python"};
	char own[PATH_MAX], path[PATH_MAX + 64], folder[PATH_MAX];

	if (!host_own_folder(own, sizeof own))
		own[0] = '\0';
	for (size_t i = 0; own[0] && i < sizeof folders / sizeof *folders; i++) {
		snprintf(path, sizeof path, "%s/%s", own, folders[i]);
		if (!realpath(path, folder))
			continue;
		snprintf(path, sizeof path, "%s/gpusim/hook", folder);
		if (access(path, X_OK) < 0)
			continue;
		put_last("PYTHONPATH", folder);
		if (hook)
			put_first("PYTHONPATH", folder, "gpusim/hook");
		return RC_OK;
	}
	return hook ? err_set(
			  err, RC_FAILED,
			  "--torch: the Python package gpusim is neither in %.200s/%s nor in %s; "
			  "install python3-gpusim",
			  own, folders[0], folders[1])
		    : RC_OK;
}

enum rc
home_enter(struct err *err)
{
	char home[PATH_MAX];
	enum rc rc = home_find(home, err);

	if (rc != RC_OK)
		return rc;
	if (env_is_set("NCCL_P2P_DISABLE")) /* devices read gpusim's variable when they start */
		must(setenv("GPUSIM_P2P_DISABLE", "1", 0) == 0);
	put_first("LD_LIBRARY_PATH", home, "lib");
	put_first("PATH", home, "bin");
	must(setenv("NCCL_HOME", home, 1) == 0 && setenv("CUDA_HOME", home, 1) == 0 &&
	     setenv("CUDA_PATH", home, 1) == 0);
	return RC_OK;
}

enum rc
run_nccl_home(struct cli *cli, const struct args *a, struct err *err)
{
	char home[PATH_MAX];
	enum rc rc = home_find(home, err);

	(void)cli;
	if (rc != RC_OK)
		return rc;
	if (a->json)
		json_put(&(struct json){stdout, false}, "{home:%s}\n", home);
	else
		puts(home);
	return RC_OK;
}
