/* Failures: their results, and their messages for ncclGetLastError. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "nccl/nccl_impl.h"

static atomic_ullong failures;
static __thread struct nccl_failure latest;

ncclResult_t
nccl_fail(ncclResult_t result, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(latest.text, sizeof latest.text, fmt, ap);
	va_end(ap);
	latest.number = atomic_fetch_add(&failures, 1) + 1;
	nccl_log(LOG_WARN, LOG_NONE, -1, "%s", latest.text);
	return result;
}

ncclResult_t
nccl_result(enum gpusim_rc rc)
{
	static const ncclResult_t of[] = {
	    [GPUSIM_OK] = ncclSuccess,
	    [GPUSIM_FAILED] = ncclRemoteError,
	    [GPUSIM_INVAL] = ncclInvalidUsage,
	    [GPUSIM_UNREACHABLE] = ncclSystemError,
	    [GPUSIM_TIMEOUT] = ncclSystemError,
	    [GPUSIM_BADDATA] = ncclInternalError,
	    [GPUSIM_INTERNAL] = ncclInternalError,
	    [GPUSIM_NOMEM] = ncclSystemError,
	    [GPUSIM_NOTFOUND] = ncclInvalidUsage,
	    [GPUSIM_BUSY] = ncclInvalidUsage,
	    [GPUSIM_ABORTED] = ncclRemoteError,
	    [GPUSIM_RECOVERED] = ncclRemoteError,
	};

	return (size_t)rc < sizeof of / sizeof *of ? of[rc] : ncclInternalError;
}

ncclResult_t
nccl_fail_rc(enum gpusim_rc rc, const char *what)
{
	return nccl_fail(nccl_result(rc), "%s : %s", what, gpusim_error());
}

ncclResult_t
nccl_fail_err(const struct err *err, const char *what)
{
	ncclResult_t result =
	    err->rc == RC_INVAL ? ncclInvalidArgument : nccl_result((enum gpusim_rc)err->rc);

	return nccl_fail(result, "%s : %s", what, err->text);
}

ncclResult_t
nccl_fail_cuda(cudaError_t e, const char *what)
{
	const char *why = gpusim_error();

	return nccl_fail(ncclUnhandledCudaError, "%s : Cuda failure %d '%s'%s%s", what, (int)e,
			 cudaGetErrorString(e), *why ? ": " : "", why);
}

const struct nccl_failure *
nccl_last_failure(void)
{
	return &latest;
}

const char *
ncclGetLastError(ncclComm_t comm)
{
	static __thread char text[NCCL_TEXT];
	const struct nccl_failure *f = &latest;

	pthread_mutex_lock(&nccl_registry);
	if (comm && comm->magic == NCCL_COMM_MAGIC && comm->failure.number > f->number)
		f = &comm->failure;
	memcpy(text, f->text, sizeof text);
	pthread_mutex_unlock(&nccl_registry);
	return text;
}
NCCL_ALIAS(ncclGetLastError);

const char *
ncclGetErrorString(ncclResult_t result)
{
	switch ((int)result) {
	case ncclSuccess:
		return "no error";
	case ncclUnhandledCudaError:
		return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
	case ncclSystemError:
		return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
	case ncclInternalError:
		return "internal error - please report this issue to the NCCL developers";
	case ncclInvalidArgument:
		return "invalid argument (run with NCCL_DEBUG=WARN for details)";
	case ncclInvalidUsage:
		return "invalid usage (run with NCCL_DEBUG=WARN for details)";
	case ncclRemoteError:
		return "remote process exited or there was a network error";
	case ncclInProgress:
		return "NCCL operation in progress";
	case ncclTimeout:
		return "NCCL operation timed out";
	default:
		return "unknown result code";
	}
}
NCCL_ALIAS(ncclGetErrorString);
