/* Models for others to fetch. */
#include "client/client_impl.h"

static enum rc
put_piece(struct gpusim *g, uint64_t training, uint64_t version, const uint8_t *bytes,
	  uint64_t nbytes, uint64_t at)
{
	GpuSim__ModelPutRequest m = GPU_SIM__MODEL_PUT_REQUEST__INIT;
	GpuSim__Request req = WIRE_REQUEST(MODEL_PUT, modelput, m);
	uint64_t left = nbytes - at;
	GpuSim__Reply *reply;
	enum rc rc;

	m.training = training;
	m.modelversion = version;
	m.nbytes = nbytes;
	m.offset = at;
	m.data.data = (uint8_t *)bytes + at;
	m.data.len = left < WIRE_BULK_MAX ? left : WIRE_BULK_MAX;
	rc = client_call(g, &req, GPU_SIM__REPLY__BODY_DONE, &reply);
	if (rc == RC_OK)
		wire_reply_free(reply);
	return rc;
}

enum gpusim_rc
gpusim_model_put(struct gpusim *g, uint64_t training, uint64_t version, const void *npz,
		 uint64_t nbytes)
{
	enum rc rc = RC_OK;

	if (nbytes == 0)
		return client_rc(
		    err_set(client_err(), RC_INVAL, "a model must have at least one byte"));
	for (uint64_t at = 0; at < nbytes && rc == RC_OK; at += WIRE_BULK_MAX)
		rc = put_piece(g, training, version, npz, nbytes, at);
	return client_rc(rc);
}
