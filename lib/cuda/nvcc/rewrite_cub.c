/* PTX that cub and thrust use: statements of several instructions, and rare ones, by their whole text. */
#include "nvcc/rewrite_impl.h"

#include <string.h>

#define SHFL(way, to, from, mask) \
	".reg.predp;shfl.sync." way ".b32" to "|p," from ",%2,%3,%" mask ";"
#define SHFL2(way, mask)                                                    \
	".reg.u32lo;.reg.u32hi;.reg.predp;mov.b64{lo,hi},%1;shfl.sync." way \
	".b32lo|p,lo,%2,%3,%" mask ";shfl.sync." way ".b32hi|p,hi,%2,%3,%" mask ";"
#define SHFL_F64(way)                                                                       \
	"{.reg.u32lo;.reg.u32hi;.reg.predp;.reg.f64r0;mov.b64%0,%1;mov.b64{lo,hi},%1;shfl." \
	"sync." way ".b32lo|p,lo,%2,%3,%4;shfl.sync." way                                   \
	".b32hi|p,hi,%2,%3,%4;mov.b64r0,{lo,hi};@padd.f64%0,%0,r0;}"

/* Text without blanks, or its begin and *; gpusim_cuda::cub_FUNCTION takes outputs, then inputs, in order. */
static const struct {
	const char *text, *function;
} known[] = {
    {"{.reg.u8datum;ld.*", "load_byte"},
    {"{.reg.u8datum;cvt.u8.u16datum,%1;st.*", "store_byte"},
    {"exit;", "exit"},
    {"vshr.u32.u32.u32.clamp.add%0,%1,%2,%3;", "shr_add"},
    {"vshl.u32.u32.u32.clamp.add%0,%1,%2,%3;", "shl_add"},
    {"vadd.u32.u32.u32.add%0,%1,%2,%3;", "add3"},
    /* cub's sums of a lane and another one, if that one is in its part of the warp; its match of bits. */
    {"{.reg.s32r0;" SHFL("up", "r0", "%1", "5") "@padd.s32r0,r0,%4;mov.s32%0,r0;}", "sum<'u'>"},
    {"{.reg.u32r0;" SHFL("up", "r0", "%1", "5") "@padd.u32r0,r0,%4;mov.u32%0,r0;}", "sum<'u'>"},
    {"{.reg.f32r0;" SHFL("up", "r0", "%1", "5") "@padd.f32r0,r0,%4;mov.f32%0,r0;}", "sum<'u'>"},
    {"{.reg.u64r0;" SHFL2("up", "5") "mov.b64r0,{lo,hi};@padd.u64r0,r0,%4;mov.u64%0,r0;}",
     "sum<'u'>"},
    {"{.reg.s64r0;" SHFL2("up", "5") "mov.b64r0,{lo,hi};@padd.s64r0,r0,%4;mov.s64%0,r0;}",
     "sum<'u'>"},
    {SHFL_F64("up"), "sum<'u'>"},
    {"{.reg.u32r0;" SHFL("down", "r0", "%1", "5") "@padd.u32r0,r0,%4;mov.u32%0,r0;}", "sum<'d'>"},
    {"{.reg.f32r0;" SHFL("down", "r0", "%1", "5") "@padd.f32r0,r0,%4;mov.f32%0,r0;}", "sum<'d'>"},
    {"{" SHFL2("down", "4") "mov.b64%0,{lo,hi};@padd.u64%0,%0,%1;}", "sum<'d'>"},
    {"{" SHFL2("down", "4") "mov.b64%0,{lo,hi};@padd.s64%0,%0,%1;}", "sum<'d'>"},
    {SHFL_F64("down"), "sum<'d'>"},
    {"{.reg.predp;and.b32%0,%1,%2;setp.eq.u32p,%0,%2;vote.ballot.sync.b32%0,p,0xffffffff;@!pnot."
     "b32%0,%0;}",
     "match_bit"},
};

/* Without blanks, is it the known text? */
static bool
matches(const char *known_text, const char *text)
{
	for (; *known_text && *known_text != '*'; text++)
		if (*text == *known_text)
			known_text++;
		else if (*text != ' ')
			return false;
	return *known_text || text[strspn(text, " ")] == '\0';
}

const char *
rewrite_cub(const char *text)
{
	for (size_t k = 0; k < sizeof known / sizeof *known; k++)
		if (matches(known[k].text, text))
			return known[k].function;
	return NULL;
}
