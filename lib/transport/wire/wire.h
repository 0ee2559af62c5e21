/*
 * wire.h - control messages: pack, unpack, check, limits, version.
 *
 * A message from a peer is unpacked with a cap on memory (protobuf-c would make 92 MiB of a hostile 1
 * MiB) and checked against the limits below.
 */
#ifndef WIRE_WIRE_H
#define WIRE_WIRE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/rc.h"
#include "gpu_sim.pb-c.h"

/* Initializers: the request, or reply, of this kind, whose body is m. */
#define WIRE_REQUEST(kind, member, m)                                          \
	{                                                                      \
		PROTOBUF_C_MESSAGE_INIT(&gpu_sim__request__descriptor),        \
		    .body_case = GPU_SIM__REQUEST__BODY_##kind, .member = &(m) \
	}
#define WIRE_REPLY(kind, member, m)                                          \
	{                                                                    \
		PROTOBUF_C_MESSAGE_INIT(&gpu_sim__reply__descriptor),        \
		    .message = (char *)protobuf_c_empty_string,              \
		    .body_case = GPU_SIM__REPLY__BODY_##kind, .member = &(m) \
	}

#define WIRE_VERSION	  1u
#define WIRE_CONTROL_MAX  (1u << 20)   /* bytes of one control message */
#define WIRE_UNPACK_MAX	  (16u << 20)  /* bytes of memory one unpacked message may take */
#define WIRE_BULK_MAX	  (512u << 10) /* bytes of memory content in one Write or Read */
#define WIRE_CHECKSUM_MAX (16u << 20)  /* bytes of memory in one Checksum */
#define WIRE_NAME_MAX	  256	       /* bytes of any string that names something */
#define WIRE_MAX_RANKS	  1024	       /* ranks of one communicator */
#define WIRE_MAX_PATHS	  512	       /* ranks of one communicator whose paths fit one message */
#define WIRE_MAX_OPS	  4096	       /* operations in one Run, Submit or graph, per rank */
#define WIRE_MAX_ARGS	  32	       /* arguments of one kernel launch */
#define WIRE_SCHEDULE_MAX \
	(256u << 10) /* bytes of one rank's schedule of an algorithm from a file */

/* Unpack and check. *out is the caller's; release with wire_request_free. RC_BADDATA, RC_NOMEM. */
enum rc wire_request_unpack(const void *data, size_t nbytes, GpuSim__Request **out,
			    struct err *err);
/* The same; *taken is the memory that the request takes. */
enum rc wire_request_unpack_sized(const void *data, size_t nbytes, GpuSim__Request **out,
				  size_t *taken, struct err *err);
enum rc wire_reply_unpack(const void *data, size_t nbytes, GpuSim__Reply **out, struct err *err);
/* Any message, of at most max bytes; released with protobuf_c_message_free_unpacked. One longer than
 * WIRE_CONTROL_MAX may take its length more than WIRE_UNPACK_MAX. */
enum rc wire_message_unpack(const ProtobufCMessageDescriptor *d, const void *data, size_t nbytes,
			    size_t max, ProtobufCMessage **out, size_t *taken, struct err *err);

/* Free what unpack made; NULL is legal. */
void wire_request_free(GpuSim__Request *req);
void wire_reply_free(GpuSim__Reply *reply);

/* The communicator that a request is about; 0: none. */
uint64_t wire_request_comm(const GpuSim__Request *req);

/* The kind of a packed Request that begins with its body: the number of that field; 0: malformed. */
uint32_t wire_packed_kind(const void *body, size_t nbytes);

/* "allreduce"-like word for a request's kind, for logs and errors. Static storage. */
const char *wire_request_name(const GpuSim__Request *req);

/* A GpuSim__OnFailure's name for users: "abort", "shrink" ...; NULL: unknown. */
const char *wire_policy_name(int on_failure);
/* Parse such a name. RC_INVAL. */
enum rc wire_policy_parse(const char *text, int *on_failure, struct err *err);

/* Turn *err into a failure reply that borrows err->text; err must outlive the packing. */
void wire_reply_failure(GpuSim__Reply *reply, const struct err *err);

/* The rc of a reply, with its message in *err for a failure. An unknown code is RC_INTERNAL. */
enum rc wire_reply_rc(const GpuSim__Reply *reply, struct err *err);

/* ---- requests as lines of the log */

/* For daemons: log the request at LOG_TRACE. Thread-safe. */
void wire_request_log(const GpuSim__Request *req);

/* ---- faults to be injected, as messages */

/* Convert a fault to a message, which borrows nothing. */
void fault_to_wire(const struct gpusim_fault *f, GpuSim__Fault *out);

/* Convert an unpacked message to a fault; its values are not checked. */
void fault_from_wire(const GpuSim__Fault *m, struct gpusim_fault *out);

/* ---- messages packed piece by piece, so that bytes are copied and not unpacked and packed again */

/* Append the packed message; false: out of memory, *b is unchanged. */
bool buf_pack(struct buf *b, const ProtobufCMessage *m);
/* Append the message as field number `field` of the message that *b encodes. */
bool buf_pack_field(struct buf *b, uint32_t field, const ProtobufCMessage *m);
/* Append the head of such a field; its nbytes follow. */
bool buf_pack_head(struct buf *b, uint32_t field, size_t nbytes);

#endif
