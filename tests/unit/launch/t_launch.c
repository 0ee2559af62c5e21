/* A cluster of a C program; tests/bats/run.bats has the cluster of gpuctl run. */
#include "launch/launch.h"

#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "programs.h"
#include "tap.h"

/* Return true if nothing is left: no child, no folder. */
static bool
left_nothing(const char *folder)
{
	return access(folder, F_OK) != 0 && waitpid(-1, NULL, WNOHANG) < 0;
}

static void
refusals(void)
{
	struct launch_config cfg = two_devices();
	struct launch *l = NULL;
	struct err err = {0};

	cfg.ndevices = 0;
	ok(launch_start(&cfg, &l, &err) == RC_INVAL && !l, "no device: %s", err.text);
	cfg.ndevices = LAUNCH_MAX_DEVICES;
	cfg.nspares = 1;
	err = (struct err){0};
	ok(launch_start(&cfg, &l, &err) == RC_INVAL && !l, "too many: %s", err.text);
	cfg = two_devices();
	cfg.grpc = "127.0.0.1:65534";
	err = (struct err){0};
	ok(launch_start(&cfg, &l, &err) == RC_INVAL && !l, "no port for each: %s", err.text);
}

/* The reason is returned as a message, and nothing is left. */
static void
failures(void)
{
	static const char *const bad[] = {"--latency", "soon"};
	struct launch_config cfg = two_devices();
	struct launch *l = NULL;
	struct err err = {0};

	cfg.dev_args = bad;
	cfg.ndev_args = 2;
	ok(launch_start(&cfg, &l, &err) == RC_FAILED && !l && strstr(err.text, "gpudev"),
	   "a device that does not start: %s", err.text);
	ok(waitpid(-1, NULL, WNOHANG) < 0, "no process is left of it");
}

/* The cluster of a killed program. */
static void
sudden_end(void)
{
	struct launch_config cfg = two_devices();
	char folder[PATH_MAX] = "";
	int told[2];
	pid_t pid;

	if (pipe(told) != 0 || (pid = fork()) < 0)
		tap_bail("no process");
	if (pid == 0) {
		struct launch *l = NULL;
		struct err err = {0};

		if (launch_start(&cfg, &l, &err) == RC_OK &&
		    write(told[1], launch_folder(l), strlen(launch_folder(l)) + 1) > 0)
			raise(SIGKILL);
		_exit(1);
	}
	close(told[1]);
	ok(read(told[0], folder, sizeof folder - 1) > 0 && folder[0] == '/', "started in %s",
	   folder);
	waitpid(pid, NULL, 0);
	/* The keeper and the guardian hold only the pipe of this program, which ends with them. */
	while (read(told[0], (char[1]){0}, 1) > 0)
		continue;
	ok(access(folder, F_OK) != 0, "a program that is killed leaves nothing behind");
	close(told[0]);
}

/* Last, as the client's threads stay. */
static void
use(void)
{
	struct launch_config cfg = two_devices();
	struct gpusim_device_info *devices = NULL;
	struct gpusim *g = NULL;
	struct launch *l = start(&cfg, &g);
	char folder[PATH_MAX] = "";
	size_t n = 0;

	snprintf(folder, sizeof folder, "%s", launch_folder(l));
	ok(gpusim_devices(g, &devices, &n) == GPUSIM_OK && n == 2, "two devices start");
	free(devices);
	gpusim_close(g);
	launch_end(l);
	ok(left_nothing(folder), "the end leaves no process and no folder");
	launch_end(NULL);
}

int
main(void)
{
	refusals();
	failures();
	sudden_end();
	use();
	return tap_done();
}
