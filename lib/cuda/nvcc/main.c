/* nvcc - compile programs written for CUDA so that they run on simulated devices. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/host.h"
#include "base/log.h"
#include "nvcc/compile.h"
#include "nvcc/options.h"

/* The parent of the program's folder. */
static enum rc
find_home(char home[PATH_MAX], struct err *err)
{
	char *slash;

	if (!host_own_folder(home, PATH_MAX))
		return err_set(err, RC_FAILED, "cannot read /proc/self/exe");
	slash = strrchr(home, '/');
	if (slash)
		*slash = '\0';
	return RC_OK;
}

int
main(int argc, char **argv)
{
	char home[PATH_MAX];
	struct nvcc n;
	struct err err = {0};
	enum rc rc;

	log_open("nvcc", LOG_WARN);
	rc = nvcc_options(&n, argc, argv, &err);

	if (rc == RC_OK && n.version) {
		/* Print the version as NVIDIA's nvcc does, because makefiles read the release; CMake
		 * looks for the name. */
		printf("nvcc: gpusim's compiler driver for programs written for CUDA "
		       "(gpusim " GPUSIM_VERSION "), in place of\n"
		       "nvcc: NVIDIA (R) Cuda compiler driver\n"
		       "Cuda compilation tools, release 12.4, V12.4.0\n");
	} else if (rc == RC_OK && n.help)
		nvcc_help(stdout);
	else if (rc == RC_OK && (rc = find_home(home, &err)) == RC_OK)
		rc = nvcc_run(&n, home, &err);
	nvcc_fini(&n);
	if (rc == RC_BADDATA) /* FILE:LINE: error: in the form of a compiler's message */
		fprintf(stderr, "%s\n", err.text);
	else if (rc != RC_OK && *err.text)
		fprintf(stderr, "nvcc: %s\n", err.text);
	if (rc == RC_OK && (fflush(stdout) != 0 || ferror(stdout)))
		rc = RC_FAILED;
	return rc_exit(rc);
}
