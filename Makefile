# gpusim: NCCL you can run from a shell.        make help lists the targets
.DELETE_ON_ERROR:
.SUFFIXES:
.SECONDARY:

# All processors, unless somebody has said -j.
ifeq ($(findstring -j,$(MAKEFLAGS) $(shell printenv MAKEFLAGS)),)
MAKEFLAGS += -j$(shell nproc)
endif

BUILD   ?= build
PREFIX  ?= /usr/local
LIBDIR  ?= $(PREFIX)/lib
ZSHDIR  ?= $(PREFIX)/share/zsh/site-functions
# Where Debian's Python looks: in /usr/local below a folder of its own version.
PYTHONDIR ?= $(PREFIX)/lib/$(or $(if $(filter /usr/local,$(PREFIX)),$(notdir $(realpath /usr/bin/python3))),python3)/dist-packages
DESTDIR ?=
# CROSS=aarch64-linux-gnu- builds for arm64: each tool for the other processor has this prefix, and a name of its own, as ever.
CROSS   ?=
tool     = $(if $(filter default undefined,$(origin $(1))),$(eval $(1) := $(CROSS)$(2)))
$(call tool,CC,$(if $(CROSS),gcc,cc))
$(call tool,CXX,g++)
$(call tool,AR,ar)
$(call tool,LD,ld)
$(call tool,NM,nm)
$(call tool,OBJCOPY,objcopy)
$(call tool,OBJDUMP,objdump)
$(call tool,STRIP,strip)
$(call tool,PKG_CONFIG,pkg-config)
PROTOC_C ?= protoc-c
VERSION := $(shell sed -n 's/^\#define GPUSIM_VERSION "\(.*\)"/\1/p' include/gpusim.h)
# Before 1.0 a minor version may change the C interface, and then the library's name.
SOVERSION := $(basename $(VERSION))

# The wings of lib/ beside base, and the rooms of the house's own library; lib/README.md describes them.
WINGS    := transport device plan coordinator clients observe training cuda
ROOMS    := base wire tape net grpc store mem coll algo cluster synth pipeline step whatif flight xport kern dev coord client view drain plot launch replay bench chaos nn grid train ps
room      = $(wildcard lib/$(1) lib/*/$(1))

# Flags that gpusim needs; the user's CPPFLAGS, CFLAGS, LDFLAGS come after them.
house_cppflags := -D_GNU_SOURCE -Iinclude -Ilib $(WINGS:%=-Ilib/%) -I$(BUILD)/gen
house_cflags   := -std=c11 -O2 -g1 -fPIC -pthread -Wall -Wextra -Wshadow -Wstrict-prototypes \
                  -Wmissing-prototypes -Wvla -Wpointer-arith -Wwrite-strings -Werror=switch -Werror=implicit-function-declaration $(WERROR:%=-Werror)
house_ldflags  := -pthread
nng_a          := $(shell $(CC) -print-file-name=libnng.a)
# nng's own TLS, where it has one.
nng_libs       := $(if $(shell $(NM) -u $(nng_a) 2>/dev/null | grep mbedtls),-lmbedtls -lmbedx509 -lmbedcrypto)
api_libs       := $(nng_libs) -lprotobuf-c -lz -lm
house_libs     := $(api_libs) -ldl
image_libs     := -lpng -ljpeg
grpc_libs      := -lnghttp2
curses_libs    := $(or $(shell $(PKG_CONFIG) --libs ncurses 2>/dev/null),-lncurses -ltinfo)
http_libs      := -lmicrohttpd
algo_libs      := -lexpat
ifdef SAN
house_cflags   += -O1 -fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=all
house_ldflags  += -fsanitize=$(SAN)
export LSAN_OPTIONS := suppressions=$(CURDIR)/tests/lsan.supp:print_suppressions=0
export UBSAN_OPTIONS := print_stacktrace=1
export TSAN_OPTIONS := suppressions=$(CURDIR)/tests/tsan.supp
endif
comma := ,
# One short line a file; V=1 shows the commands.
ifdef V
say = $(1)
else
say = @printf '  %-6s %s\n' $(2) '$(3)'; $(1)
endif
compile = $(call say,$(CC) $(house_cppflags) $(CPPFLAGS) $(house_cflags) $(CFLAGS) -MMD -MP -c -o $@ $<,CC,$<)
link    = $(call say,$(CC) $(house_ldflags) $(LDFLAGS) -o $@ $(1) $(link_end),LD,$@)

PROGRAMS := gpudev gpucoord gpuctl mnist-train

lib_src  := $(foreach r,$(ROOMS),$(sort $(foreach d,$(call room,$r),$(wildcard $d/*.c $d/*/*.c))))
# Messages: gpusim's and those of gRPC itself, and the descriptors of all for server reflection.
protos   := gpu_sim grpc/health/v1/health grpc/reflection/v1/reflection
# And the format of traces that gpuctl replay reads.
packed   := $(protos) chakra
gen      := $(packed:%=%.pb-c) grpc_descriptors
lib_obj  := $(lib_src:%.c=$(BUILD)/obj/%.o) $(gen:%=$(BUILD)/obj/%.o)
# The library serves no HTTP, builds no plans, and ends no program.
api_obj  := $(filter-out %/net/http_server.o %/net/http_answer.o %/base/must.o,\
    $(filter $(foreach r,base wire net mem flight client,$(BUILD)/obj/$(call room,$r)/%) %/coll/shape.o %/gpu_sim.pb-c.o,$(lib_obj)))
# The home of NCCL's interface: a folder with the names that programs written for NCCL and CUDA look for.
home     := $(BUILD)/nccl
nccl_inc := $(patsubst include/nccl/%,$(home)/include/%,$(shell find include/nccl -name "*.h" -o -name "*.hpp" -o -name "*.inl"))
nvcc_bin := $(if $(wildcard $(call room,nvcc)/*.c),$(home)/bin/nvcc)
# Names that CMake links, and that another runtime looks for: the runtime that is static of CUDA's is the shared one, and code for devices needs no library.
nccl_link := $(home)/lib/libcudart_static.a $(home)/lib/libcudadevrt.a $(home)/lib/libcuda.so.1 $(home)/lib/libnvToolsExt.so
# What is refused by a sentence: headers with an #error, and names in lib/stubs for linkers, so that CMake comes to them. Programs
# that only name the driver's library are linked with the runtime.
not_here := cuFFT:cufft.h:cufftXt.h:cufftw.h cuRAND:curand.h:curand_kernel.h cuSPARSE:cusparse.h:cusparse_v2.h \
    cuSOLVER:cusolverDn.h:cusolverSp.h:cusolverRf.h:cusolverMg.h:cusolverSp_LOWLEVEL_PREVIEW.h:cusolver_common.h NVRTC:nvrtc.h nvJitLink:nvJitLink.h \
    NPP:npp.h:nppi.h:npps.h:nppdefs.h:nppcore.h nvJPEG:nvjpeg.h cuBLASXt:cublasXt.h cuBLAS_without_handles:cublas.h cuDNN:cudnn.h WMMA:mma.h \
    graphics_interoperability:cuda_gl_interop.h:cudaGL.h:cudaEGL.h:cuda_egl_interop.h:cuda_vdpau_interop.h
driver_calls := Init DriverGetVersion GetErrorName GetErrorString GetProcAddress GetExportTable DeviceGet DeviceGetCount DeviceGetName \
    DeviceGetAttribute DeviceGetUuid DeviceGetUuid_v2 DeviceTotalMem DeviceComputeCapability DeviceCanAccessPeer \
    DeviceGetPCIBusId DevicePrimaryCtxRetain DevicePrimaryCtxRelease DeviceGetP2PAttribute CtxCreate CtxDestroy \
    CtxSynchronize CtxGetCurrent CtxSetCurrent CtxGetDevice CtxGetApiVersion CtxPushCurrent CtxPopCurrent \
    CtxEnablePeerAccess CtxDisablePeerAccess ModuleLoad ModuleLoadData ModuleLoadDataEx ModuleUnload ModuleGetFunction \
    ModuleGetGlobal LibraryLoadData LibraryGetKernel LinkCreate LinkAddData LinkAddFile LinkComplete LinkDestroy \
    FuncGetAttribute FuncSetAttribute LaunchKernel LaunchKernelEx LaunchCooperativeKernel LaunchHostFunc \
    OccupancyMaxPotentialBlockSize OccupancyMaxActiveBlocksPerMultiprocessor MemAlloc MemAllocHost MemAllocManaged \
    MemAllocAsync MemFree MemFreeHost MemFreeAsync MemGetInfo Memcpy MemcpyAsync MemcpyHtoD MemcpyHtoDAsync MemcpyDtoH \
    MemcpyDtoHAsync MemcpyDtoD Memcpy2D Memcpy3D MemsetD8 MemsetD32 MemHostAlloc MemHostRegister MemHostUnregister \
    MemHostGetDevicePointer PointerGetAttribute MemCreate MemRelease MemMap MemUnmap MemSetAccess MemAddressReserve \
    MemAddressFree MemGetAllocationGranularity MemExportToShareableHandle MemImportFromShareableHandle \
    MemGetAllocationPropertiesFromHandle MulticastCreate StreamCreate StreamDestroy StreamQuery StreamSynchronize \
    StreamWaitEvent StreamWaitValue32 StreamWriteValue32 EventCreate EventDestroy EventQuery EventRecord EventSynchronize \
    EventElapsedTime ArrayCreate Array3DCreate ArrayDestroy TexObjectCreate TexObjectDestroy TexRefSetArray TexRefSetFlags \
    ProfilerInitialize ProfilerStart ProfilerStop
not_here_inc := $(foreach n,$(not_here),$(addprefix $(home)/include/,$(wordlist 2,9,$(subst :, ,$n))))
not_here_lib := $(foreach l,cufft cufftw curand cusparse cusolver cusolverMg nvrtc nvjpeg \
    $(addprefix npp,c ial icc idei if ig im ist isu itc s),$(home)/lib/stubs/lib$l.so) $(home)/lib/stubs/libcufft_static.a $(home)/lib/libnvJitLink.so
home_libs := cudart.so.12 nccl.so.2 cublas.so.12 cublasLt.so.12 nvidia-ml.so.1
home_links := $(foreach l,$(home_libs),$(home)/lib/lib$(basename $l))
nccl_home := $(nccl_inc) $(not_here_inc) $(home)/include/gpusim_no_driver.h $(not_here_lib) $(home)/lib/stubs/libcuda.so $(nvcc_bin) $(home_links) $(nccl_link) $(home)/lib64
# The package for Python, with what Python's packaging knows of it.
py_info  := gpusim-$(VERSION).dist-info
python   := $(patsubst lib/python/%,$(BUILD)/python/%,$(sort $(shell find lib/python/gpusim -name '*.py'))) \
    $(BUILD)/python/$(py_info)/METADATA $(BUILD)/python/$(py_info)/entry_points.txt
program_obj = $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard cmd/$(1)/*.c))
bin      := $(PROGRAMS:%=$(BUILD)/bin/%)
# The fetchers of data have one name, in the build and installed.
fetchers := gpusim-fetch-mnist gpusim-fetch-fashion
# mnist-train --backend mpi, if MPI's headers are installed; not under sanitizers, which find leaks of MPI, nor for another processor.
MPICC    ?= mpicc
ifndef MPI
MPI      := $(if $(SAN)$(CROSS),0,$(shell $(MPICC) -include mpi.h -fsyntax-only -xc /dev/null >/dev/null 2>&1 && echo 1 || echo 0))
endif
ifneq ($(MPI),0)
mpi_bin  := $(BUILD)/bin/mnist-train-mpi
mpi_obj  := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard cmd/mnist-train/mpi/*.c) \
              cmd/mnist-train/curves.c cmd/mnist-train/options.c cmd/mnist-train/report.c)
endif
unit     := $(patsubst %.c,$(BUILD)/unit/%,$(notdir $(wildcard tests/unit/*/t_*.c)))
examples := $(patsubst examples/%.c,$(BUILD)/examples/%,$(wildcard examples/*.c))
converters := $(patsubst tools/%.c,$(BUILD)/tools/%,$(wildcard tools/*.c))
own_kernels := $(patsubst examples/kernels/%.c,$(BUILD)/examples/%.so,$(wildcard examples/kernels/*.c))
e2e      := $(patsubst tests/e2e/%.c,$(BUILD)/e2e/%,$(filter-out tests/e2e/corpus_%.c,$(wildcard tests/e2e/*.c)))
fuzzers  := $(patsubst tests/fuzz/%.c,$(BUILD)/fuzz/%,$(wildcard tests/fuzz/f_*.c))
man      := $(wildcard man/*.[1-9])
configs  := $(wildcard examples/config/*.ini)
clusters := $(wildcard examples/clusters/*.ini)
failures := $(wildcard examples/failures/*.ini)

.PHONY: all
all: $(bin) $(fetchers:%=$(BUILD)/bin/%) $(mpi_bin) $(BUILD)/libgpusim.a $(BUILD)/libgpusim.so $(nccl_home) $(python) $(examples) $(own_kernels) $(converters)

# ---- generated code, objects, libraries, programs

$(BUILD)/gen/%.pb-c.c $(BUILD)/gen/%.pb-c.h &: proto/%.proto
	@mkdir -p $(@D)
	$(call say,$(PROTOC_C) --proto_path=proto --c_out=$(BUILD)/gen $<,PROTOC,$<)

# Reflection under its former name too, because clients use either.
reflection := grpc/reflection/v1/reflection.proto
alpha      := $(BUILD)/gen/$(reflection:grpc/reflection/v1/%=grpc/reflection/v1alpha/%)
$(alpha): proto/$(reflection)
	@mkdir -p $(@D)
	@sed 's/^package grpc.reflection.v1;/package grpc.reflection.v1alpha;/' $< >$@

$(BUILD)/gen/grpc_descriptors.c: $(protos:%=proto/%.proto) $(alpha)
	@mkdir -p $(@D)
	@$(PROTOC_C) --proto_path=proto --proto_path=$(BUILD)/gen --descriptor_set_out=$(@:.c=.pb) $^
	@(echo '#include "grpc/descriptor.h"'; echo 'const unsigned char grpc_descriptors[] = {'; \
	    od -An -v -tu1 $(@:.c=.pb) | sed 's/\([0-9]\)\( \|$$\)/\1,\2/g'; echo '};'; \
	    echo 'const size_t grpc_descriptors_size = sizeof grpc_descriptors;') >$@

# The live page: page.html with its style and script in it.
page_src := $(addprefix cmd/gpucoord/page/,page.html page.css page.js)
$(BUILD)/gen/page.c: $(page_src)
	@mkdir -p $(@D)
	@sed -e '/@STYLE@/{r cmd/gpucoord/page/page.css' -e 'd;}' -e '/@SCRIPT@/{r cmd/gpucoord/page/page.js' -e 'd;}' \
	    cmd/gpucoord/page/page.html >$(@:.c=.html)
	@(echo '#include <stddef.h>'; \
	    echo 'extern const unsigned char page_html[];'; echo 'extern const size_t page_html_size;'; \
	    echo 'const unsigned char page_html[] = {'; \
	    od -An -v -tu1 $(@:.c=.html) | sed 's/\([0-9]\)\( \|$$\)/\1,\2/g'; echo '};'; \
	    echo 'const size_t page_html_size = sizeof page_html;') >$@
$(BUILD)/obj/page.o: $(BUILD)/gen/page.c
	@mkdir -p $(@D)
	$(compile)
$(BUILD)/bin/gpucoord: $(BUILD)/obj/page.o

gen_headers := $(packed:%=$(BUILD)/gen/%.pb-c.h)
$(gen:%=$(BUILD)/obj/%.o): $(BUILD)/obj/%.o: $(BUILD)/gen/%.c | $(gen_headers)
	@mkdir -p $(@D)
	$(compile)

$(BUILD)/obj/%.o: %.c | $(gen_headers)
	@mkdir -p $(@D)
	$(compile)

# Reduction and elementwise kernels are loops for the vectoriser. They do not read errno. The compiler may not fuse two
# operations into an FMA, so results are the same on every processor.
$(BUILD)/obj/$(call room,mem)/%.o $(foreach r,dev kern,$(BUILD)/obj/$(call room,$r)/kern_%.o): house_cflags += -O3 -fno-math-errno \
    -ffp-contract=off

$(BUILD)/libhouse.a: $(lib_obj) $(BUILD)/nng.o
	@rm -f $@
	@twice=$$($(NM) --defined-only -g $(lib_obj) | awk 'NF == 3 && $$2 ~ /[TDBR]/ { print $$3 }' | sort | uniq -d); \
	[ -z "$$twice" ] || { echo "$@: defined twice:" $$twice >&2; exit 1; }
	$(call say,$(AR) rcs $@ $^,AR,$@)

# nng, linked privately into each program and library; nng.syms of its room lists the symbols that it gets from us. A program
# that also uses the shared nng has two separate copies.
$(BUILD)/nng.o: $(nng_a) $(call room,net)/nng.syms tools/private-nng
	@mkdir -p $(@D)
	$(call say,LD='$(LD)' AR='$(AR)' NM='$(NM)' OBJCOPY='$(OBJCOPY)' tools/private-nng '$(nng_a)' $(call room,net)/nng.syms $@,NNG,$@)

# Other programs see gpusim_* and no other symbol.
$(BUILD)/libgpusim.a: $(api_obj) $(BUILD)/nng.o
	@rm -f $@
	@$(LD) -r -o $(BUILD)/obj/libgpusim.o $^
	@$(OBJCOPY) --wildcard --keep-global-symbol='gpusim_*' $(BUILD)/obj/libgpusim.o
	$(call say,$(AR) rcs $@ $(BUILD)/obj/libgpusim.o,AR,$@)

# With what pkg-config tells programs that are built against the tree.
$(BUILD)/libgpusim.so: $(api_obj) $(BUILD)/nng.o $(call room,client)/gpusim.map $(call room,client)/gpusim.pc.in
	$(call link,-shared -Wl$(comma)-soname$(comma)libgpusim.so.$(SOVERSION) \
	    -Wl$(comma)--version-script=$(call room,client)/gpusim.map $(api_obj) $(BUILD)/nng.o $(house_libs))
	@ln -sfn libgpusim.so $(BUILD)/libgpusim.so.$(SOVERSION)
	@sed 's|@PREFIX@|$(CURDIR)|;s|@LIBDIR@|$(abspath $(BUILD))|;s|@VERSION@|$(VERSION)|;s|@LIBS@|$(api_libs)|;s|^Libs:.*|& -Wl,-rpath,$${libdir}|' \
	    $(call room,client)/gpusim.pc.in >$(BUILD)/gpusim.pc

# Programs written for CUDA and NCCL see CUDA's and NCCL's symbols. libnccl uses the client inside of libcudart, under a
# version of its own.
door_obj = $(patsubst %.c,$(BUILD)/obj/%.o,$(sort $(wildcard $(call room,$(1))/*.c)))
$(foreach r,cudart nccl cublas nvml,$(BUILD)/obj/$(call room,$r)/%.o): house_cppflags += -Iinclude/nccl
$(home)/lib/libcudart.so.12: $(call door_obj,cudart) $(api_obj) $(BUILD)/nng.o $(call room,cudart)/cudart.map
	@mkdir -p $(@D)
	$(call link,-shared -Wl$(comma)-soname$(comma)libcudart.so.12 -Wl$(comma)-Bsymbolic \
	    -Wl$(comma)--version-script=$(call room,cudart)/cudart.map $(filter %.o,$^) $(house_libs))
nccl_also = $(filter-out %/base/must.o,$(filter $(foreach r,base coll,$(BUILD)/obj/$(call room,$r)/%) %/mem/dtype.o %/mem/redop.o,$(lib_obj)))
$(home)/lib/libnccl.so.2: $(call door_obj,nccl) $(nccl_also) $(call room,nccl)/nccl.map $(home)/lib/libcudart.so.12
	@mkdir -p $(@D)
	$(call link,-shared -Wl$(comma)-soname$(comma)libnccl.so.2 -Wl$(comma)-Bsymbolic -Wl$(comma)-rpath$(comma)'$$ORIGIN' \
	    -Wl$(comma)--version-script=$(call room,nccl)/nccl.map $(filter %.o %.so.12,$^) -lm)
# Each has the files of the room that its calls need.
$(home)/lib/libcublas.so.12: $(filter-out %/lt.o,$(call door_obj,cublas))
$(home)/lib/libcublasLt.so.12: $(filter-out %/blas.o %/copy.o,$(call door_obj,cublas))
$(BUILD)/obj/$(call room,cublas)/gemm.o: house_cflags += -O3 -fno-math-errno
$(home)/lib/libcublas.so.12 $(home)/lib/libcublasLt.so.12: $(filter $(BUILD)/obj/lib/base/%,$(nccl_also)) \
    $(wildcard $(call room,cublas)/*.map) $(home)/lib/libcudart.so.12
	@mkdir -p $(@D)
	$(call link,-shared -Wl$(comma)-soname$(comma)$(@F) -Wl$(comma)-Bsymbolic -Wl$(comma)-rpath$(comma)'$$ORIGIN' \
	    -Wl$(comma)--version-script=$(call room,cublas)/$(@F:lib%.so.12=%.map) $(filter %.o %.so.12,$^) -lopenblas -lm)
# NVML contains the client.
$(home)/lib/libnvidia-ml.so.1: $(call door_obj,nvml) $(api_obj) $(BUILD)/nng.o $(call room,nvml)/nvml.map
	@mkdir -p $(@D)
	$(call link,-shared -Wl$(comma)-soname$(comma)$(@F) -Wl$(comma)-Bsymbolic \
	    -Wl$(comma)--version-script=$(call room,nvml)/nvml.map $(filter %.o,$^) $(house_libs))
$(foreach l,$(home_libs),$(eval $(home)/lib/lib$(basename $l): $(home)/lib/lib$l))
$(home_links):
	@ln -sf $(<F) $@
$(home)/lib/libcudart_static.a $(home)/lib/libcuda.so.1 $(home)/lib/libnvToolsExt.so: $(home)/lib/libcudart.so.12
	@ln -sf libcudart.so.12 $@
$(home)/lib/libcudadevrt.a:
	@mkdir -p $(@D)
	@echo '!<arch>' >$@
$(not_here_inc): Makefile
	@mkdir -p $(@D)
	@echo '#error "gpusim: $(strip $(foreach n,$(not_here),$(if $(findstring :$(@F):,$n:),$(subst _, ,$(firstword $(subst :, ,$n)))))) is not simulated"' >$@
$(home)/include/gpusim_no_driver.h: Makefile
	@mkdir -p $(@D)
	@printf '#define cu%s(...) GPUSIM_NO_DRIVER()\n' $(driver_calls) >$@
$(not_here_lib): Makefile
	@mkdir -p $(@D)
	@echo 'ASSERT(0, "gpusim: the library $(@F) is not simulated")' >$@
$(home)/lib/stubs/libcuda.so: $(home)/lib/libcudart.so.12
	@mkdir -p $(@D)
	@ln -sf ../libcudart.so.12 $@
$(home)/lib64: | $(home)/lib/libcudart.so.12
	@ln -sfn lib $@
$(home)/include/%: include/nccl/%
	@mkdir -p $(@D)
	@cp $< $@
$(home)/bin/nvcc: $(call door_obj,nvcc) $(filter $(BUILD)/obj/lib/base/%,$(lib_obj))
	@mkdir -p $(@D)
	$(call link,$^ -lm)
# One that runs here and compiles for the other processor; it is not installed.
BUILD_CC ?= cc
nvcc     := $(if $(CROSS),$(home)/bin/nvcc-$(CROSS),$(nvcc_bin))
ifneq ($(CROSS),)
$(nvcc): $(wildcard $(call room,nvcc)/*.c lib/base/*.c)
	@mkdir -p $(@D)
	$(call say,$(BUILD_CC) $(house_cppflags) -std=c11 -O1 -pthread -o $@ $^ -lm,CC,$@)
endif

$(BUILD)/bin/gpudev: extra_libs := -lopenblas $(grpc_libs)
$(BUILD)/e2e/deadly: extra_libs := -lcjson $(curses_libs) $(algo_libs)
# A script starts gpuctl often, and most of such a process is its loading: so it is linked statically, where there are
# archives of all that it needs. STATIC=0: not so.
archive = $(findstring /,$(shell $(CC) -print-file-name=lib$(1).a))
gpuctl_libs := $(patsubst -l%,%,$(nng_libs) $(filter -l%,$(curses_libs))) expat protobuf-c z m c
STATIC ?= $(if $(SAN),0,$(if $(filter $(words $(gpuctl_libs)),$(words $(foreach l,$(gpuctl_libs),$(call archive,$l)))),1,0))
ifeq ($(STATIC),1)
# ld warns of getaddrinfo: a static program asks files and DNS itself, and loads libraries for other sources of names. What
# ld says is shown when it fails; with ld's --no-warnings it would not fail on undefined symbols.
$(BUILD)/bin/gpuctl: private house_ldflags += -static
$(BUILD)/bin/gpuctl: private link_end = 2>$@.said || { cat $@.said >&2; rm -f $@.said; exit 1; }; rm -f $@.said
endif
$(BUILD)/bin/gpuctl: extra_libs := $(curses_libs) $(algo_libs)
$(BUILD)/bin/gpucoord: extra_libs := -lcjson $(grpc_libs) $(http_libs) $(algo_libs)
$(BUILD)/bin/mnist-train: extra_libs := $(image_libs)
.SECONDEXPANSION:
$(bin): $(BUILD)/bin/%: $$(call program_obj,$$*) $(BUILD)/libhouse.a
	@mkdir -p $(@D)
	$(call link,$^ $(extra_libs) $(house_libs))

$(fetchers:%=$(BUILD)/bin/%): $(BUILD)/bin/gpusim-%:
	@mkdir -p $(@D)
	@ln -sf $(CURDIR)/tools/$* $@

$(BUILD)/python/$(py_info)/METADATA: lib/python/METADATA.in include/gpusim.h
	@mkdir -p $(@D)
	@sed 's|@VERSION@|$(VERSION)|' $< >$@
$(BUILD)/python/$(py_info)/entry_points.txt: lib/python/entry_points.txt
	@mkdir -p $(@D)
	@cp $< $@
$(BUILD)/python/%: lib/python/%
	@mkdir -p $(@D)
	@cp $< $@

# MPI's own compiler driver, with our compiler in it.
ifneq ($(MPI),0)
mpi_cc := OMPI_CC='$(CC)' MPICH_CC='$(CC)' $(MPICC)
$(BUILD)/obj/cmd/mnist-train/mpi/%.o $(mpi_bin): private override CC = $(mpi_cc)
$(BUILD)/obj/cmd/mnist-train/mpi/%.o: private house_cppflags += -Icmd
$(mpi_bin): $(mpi_obj) $(BUILD)/libhouse.a
	@mkdir -p $(@D)
	$(call link,$^ -lopenblas $(image_libs) $(house_libs))
endif

$(BUILD)/examples/%: examples/%.c $(BUILD)/libgpusim.a
	@mkdir -p $(@D)
	$(call say,$(CC) -Iinclude $(CPPFLAGS) $(house_cflags) $(CFLAGS) $(house_ldflags) $(LDFLAGS) \
	    -o $@ $^ $(house_libs),CC,$<)

$(BUILD)/tools/%: tools/%.c
	@mkdir -p $(@D)
	$(call say,$(CC) $(CPPFLAGS) $(house_cflags) $(CFLAGS) $(house_ldflags) $(LDFLAGS) -o $@ $<,CC,$<)

# Kernels of your own, which gpudev --kernels loads; they need one header only.
$(BUILD)/examples/%.so: examples/kernels/%.c include/gpusim_kernel.h
	@mkdir -p $(@D)
	$(call say,$(CC) -Iinclude $(CPPFLAGS) $(house_cflags) $(CFLAGS) $(house_ldflags) $(LDFLAGS) \
	    -shared -o $@ $<,CC,$<)

# ---- tests

# The unit tests of a room are one program, build/unit/ROOM; build/unit/t_NAME is a link by whose name it runs t_NAME.c.
# They are compiled for little time; a test's own loops are short.
unit_rooms := $(patsubst tests/unit/%/,%,$(wildcard tests/unit/*/))
unit_tests  = $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard tests/unit/$(1)/t_*.c))
$(BUILD)/obj/tests/unit/%.o: house_cppflags += -Itests/unit -Itests -Dmain=$(basename $(notdir $@))_main
$(BUILD)/obj/tests/unit/%.o: house_cflags += -O1 -Wno-missing-prototypes -Wno-format-truncation
$(BUILD)/obj/tests/e2e/%.o: house_cflags += -O1
# What else a room's tests are linked with: the coordinator's harness; parts of programs; of libnccl what needs no CUDA.
unit_with_coord  := $(patsubst %,$(BUILD)/obj/%.o,tests/unit/coord_harness cmd/gpucoord/keep)
unit_with_sim    := $(BUILD)/obj/tests/sim/digest.o
unit_with_nccl   := $(patsubst %,$(BUILD)/obj/$(call room,nccl)/%.o,algos config id log order)
unit_with_nvcc   := $(filter-out %/main.o,$(call door_obj,nvcc))
unit_with_cudart := $(call door_obj,cudart)
$(foreach r,nccl cudart,$(BUILD)/obj/tests/unit/$r/%.o): house_cppflags += -Iinclude/nccl
define unit_room
$(BUILD)/obj/tests/unit/$(1)/main.o: tests/unit/unit.c tests/unit/$(1)
	@mkdir -p $$(@D)
	$$(call say,$$(CC) -DUNITS='$(patsubst tests/unit/$(1)/%.c,UNIT(%),$(wildcard tests/unit/$(1)/t_*.c))' \
	    $$(CPPFLAGS) $$(house_cflags) $$(CFLAGS) -c -o $$@ $$<,CC,$$@)
$(BUILD)/unit/$(1): $(BUILD)/obj/tests/unit/$(1)/main.o $(call unit_tests,$(1)) $(unit_with_$(1)) $(BUILD)/libhouse.a
	@mkdir -p $$(@D)
	$$(call link,$$(filter %.o,$$^) $$(filter %.a,$$^) -Wl$$(comma)--as-needed -lopenblas -lcjson $$(image_libs) $$(grpc_libs) \
	    $$(http_libs) $$(algo_libs) $$(house_libs))
$(patsubst tests/unit/$(1)/%.c,$(BUILD)/unit/%,$(wildcard tests/unit/$(1)/t_*.c)): $(BUILD)/unit/$(1)
	@ln -sf $(1) $$@
endef
$(foreach r,$(unit_rooms),$(eval $(call unit_room,$r)))

.PHONY: unit e2e sim sim-digest check check-unit check-threads check-sim check-bats check-skipped
unit: $(unit)

# Most tests wait most of the time, so twice as many files as processors run side by side, the longest first. tests/tap
# shows the failures; PROVE_FLAGS=-j1 runs one file after the other.
TEST_JOBS ?= $(shell echo $$((2 * $$(nproc))))
prove = BUILD=$(abspath $(BUILD)) XDG_STATE_HOME=$(abspath $(BUILD))/state SIM_SEEDS=$(SEEDS) prove --timer -j$(TEST_JOBS) $(PROVE_FLAGS) -e tests/tap
longest_first = $(foreach f,$(2),$(filter $f,$(1))) $(filter-out $(2),$(1))
slow_unit := $(addprefix $(BUILD)/unit/t_,rpc nng_traps tls store_etcd collective failure coll_% coord_storm xport)
slow_bats := $(patsubst %,tests/bats/%.bats,recipes run-torch recovery inject ps hostile docs tutorial quickref train-failure resume filter launch run restart \
                 examples train-ways mpi sweep bench gpuctl tls care compare partition spread-long)
sim  := $(BUILD)/sim/sim
BATS ?= $(wildcard tests/bats/*.bats)

# The list of what was skipped lies in BUILD afterwards; check-skipped runs the tests of such a list, SKIPPED, alone.
check: all abi e2e $(unit) $(sim)
	@rm -f $(BUILD)/skipped
	TEST_SKIPPED=$(abspath $(BUILD))/skipped $(prove) $(call longest_first,$(BATS) $(sim) $(unit),$(slow_bats) $(sim) $(slow_unit))

# The programs, and what bats files without NCCL's interface start beside them.
.PHONY: programs
programs: $(bin) $(e2e)

# BESIDE: bats files to run at the same time.
check-unit: $(unit) programs
	$(prove) $(call longest_first,$(BESIDE) $(unit),$(slow_bats) $(slow_unit))

SKIPPED ?= $(BUILD)/skipped
check-skipped: all e2e $(unit) $(sim)
	TEST_ONLY=$(abspath $(SKIPPED)) $(prove) $(call longest_first,$(sort $(foreach f,$(shell cut -f 1 $(SKIPPED)), \
	    $(if $(filter tests/%,$f),$f,$(BUILD)/unit/$(notdir $f)))),$(slow_bats))

check-bats: all e2e $(sim)
	$(prove) $(call longest_first,$(BATS),$(slow_bats))

# Tests of rooms with threads; pure code has no threads that could race.
pure := algo% canonical checkpoint cluster% flow% grid% part lower% prove% step% synth% whatif% fiber nvcc nvcc_% coll_% compare config coord% dataset dtype emit frame grpc idx image kern_% launcher mutants nccl_% nearest net npy npz \
        num order parse pickle pipeline plan protocol ps_pool read_% reduce% rendezvous samples schedule search shaper simulate tar tune \
        vectext wire zip
threaded := $(filter-out $(pure:%=$(BUILD)/unit/t_%),$(unit))

.PHONY: threaded
threaded: $(threaded) $(bin)

check-threads: threaded
	$(prove) $(call longest_first,$(threaded),$(slow_unit))

# Simulated worlds of one coordinator, devices and clients, each from a seed: make sim SEEDS=1000000 SEED=1
SEEDS ?= 10000
SEED  ?= 1
sim: $(sim)
	$< -n $(SEEDS) -s $(SEED)

# If this line is the same before and after a change, no event of these worlds has changed.
sim-digest: $(sim)
	@$< -d -n $(SEEDS) -s $(SEED)

check-sim: $(sim)
	$(prove) $<

$(sim): $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard tests/sim/*.c)) $(BUILD)/libhouse.a
	@mkdir -p $(@D)
	$(call link,$^ $(algo_libs) $(house_libs))

# Predicted times of collectives beside measured ones; fails when an error is larger than it was.
validate := $(BUILD)/clusters/validate
.PHONY: validate-clusters
validate-clusters: $(validate)
	@$< -l tests/data/clusters/limits tests/data/clusters

$(validate): $(BUILD)/obj/tests/clusters/validate.o $(BUILD)/libhouse.a
	@mkdir -p $(@D)
	$(call link,$^ $(house_libs))

# Programs for the end-to-end tests; in NCCL's interface those of tests/nccl, where .cu files need a C++ compiler and
# mpi_*.c need MPI.
nccl_c   := $(if $(filter 0,$(MPI)),$(filter-out tests/nccl/mpi_%,$(wildcard tests/nccl/*.c)),$(wildcard tests/nccl/*.c))
nccl_e2e := $(nccl_c:tests/nccl/%.c=$(BUILD)/e2e/nccl/%) \
    $(if $(and $(nvcc_bin),$(shell command -v $(CXX))),$(patsubst tests/nccl/%.cu,$(BUILD)/e2e/nccl/%,$(wildcard tests/nccl/*.cu)))
e2e: $(e2e) $(nccl_e2e) $(validate)

$(nccl_e2e): $(nccl_inc) $(not_here_inc) $(home)/include/gpusim_no_driver.h $(home_links) $(wildcard tests/nccl/*.h)
nccl_libs  = -L$(home)/lib -lnccl -lcudart $(if $(findstring /blas_,$@),-lcublas -lcublasLt) $(if $(findstring /nvml_,$@),-lnvidia-ml)
$(filter $(BUILD)/e2e/nccl/mpi_%,$(nccl_e2e)): private override CC = $(mpi_cc)
$(BUILD)/e2e/nccl/%: tests/nccl/%.c
	@mkdir -p $(@D)
	$(call say,$(CC) -D_GNU_SOURCE -I$(home)/include $(CPPFLAGS) $(house_cflags) $(CFLAGS) $(house_ldflags) $(LDFLAGS) \
	    -Wl$(comma)-rpath$(comma)'$$ORIGIN/../../nccl/lib' -o $@ $< $(nccl_libs) -lm,CC,$<)
$(BUILD)/e2e/nccl/%: tests/nccl/%.cu $(nvcc)
	@mkdir -p $(@D)
	$(call say,$(nvcc) -ccbin '$(CXX)' -O1 -g $(foreach s,$(subst $(comma), ,$(SAN)),-Xcompiler -fsanitize=$s) \
	    -Xlinker -rpath -Xlinker '$$ORIGIN/../../nccl/lib' -o $@ $< $(nccl_libs),NVCC,$<)

$(BUILD)/e2e/corpus: $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard tests/e2e/corpus_*.c))
# gpuctl with its calls wrapped by tests/e2e/deadly.c.
$(BUILD)/e2e/deadly: $$(call program_obj,gpuctl)
$(BUILD)/e2e/deadly: private house_ldflags += $(patsubst %,-Wl$(comma)--wrap=gpusim_%,comm_init_all malloc \
    memcpy_h2d collective memcpy_d2h free comm_destroy)
$(BUILD)/e2e/%: $(BUILD)/obj/tests/e2e/%.o $(BUILD)/libhouse.a
	@mkdir -p $(@D)
	$(call link,$(filter %.o,$^) $(filter %.a,$^) $(extra_libs) $(house_libs))

.PHONY: asan tsan
asan:
	$(MAKE) BUILD=$(BUILD)/asan SAN=address,undefined check

tsan:
	$(MAKE) BUILD=$(BUILD)/tsan SAN=thread check-threads

# The fuzzers have objects of their own: clang, with coverage, and the sanitizers.
FUZZ_CC  ?= clang
fuzz_san := -O1 -fsanitize=address,undefined -fno-sanitize-recover=all
fuzz_obj := $(lib_obj:$(BUILD)/obj/%=$(BUILD)/fuzz/obj/%)

$(BUILD)/fuzz/obj/%.o: override CC = $(FUZZ_CC)
$(BUILD)/fuzz/obj/%.o: house_cflags += $(fuzz_san) -fsanitize=fuzzer-no-link

$(gen:%=$(BUILD)/fuzz/obj/%.o): $(BUILD)/fuzz/obj/%.o: $(BUILD)/gen/%.c | $(gen_headers)
	@mkdir -p $(@D)
	$(compile)

$(BUILD)/fuzz/obj/%.o: %.c | $(gen_headers)
	@mkdir -p $(@D)
	$(compile)

$(BUILD)/fuzz/libhouse.a: $(fuzz_obj) $(BUILD)/nng.o
	@rm -f $@
	$(call say,$(AR) rcs $@ $^,AR,$@)

$(BUILD)/fuzz/f_config: $(BUILD)/fuzz/obj/cmd/gpucoord/options.o
$(BUILD)/fuzz/f_%: $(BUILD)/fuzz/obj/tests/fuzz/f_%.o $(BUILD)/fuzz/libhouse.a
	$(call say,$(FUZZ_CC) -pthread $(fuzz_san) -fsanitize=fuzzer $(LDFLAGS) -o $@ \
	    $(filter %.o,$^) $(filter %.a,$^) -Wl$(comma)--as-needed -lopenblas -lcjson $(image_libs) \
	    $(grpc_libs) $(http_libs) $(algo_libs) $(house_libs),LD,$@)

# What the compiler says of all that is compiled but the library, which the fuzzers have, and programs written for NCCL.
.PHONY: syntax
syntax_src := $(foreach p,$(PROGRAMS),$(wildcard cmd/$p/*.c)) $(foreach r,nccl cudart cublas nvml nvcc,$(wildcard $(call room,$r)/*.c)) \
    $(wildcard tests/unit/*.c tests/unit/*/*.c tests/e2e/*.c tests/sim/*.c tests/clusters/*.c tools/*.c examples/*.c examples/kernels/*.c)
syntax: $(syntax_src:%=%.syntax)
%.c.syntax: %.c | $(gen_headers)
	@$(CC) $(house_cppflags) -Iinclude/nccl -Icmd -Itests -Itests/unit -DUNITS= $(CPPFLAGS) $(house_cflags) $(CFLAGS) -fsyntax-only $<

FUZZ_SECONDS ?= 600
.PHONY: fuzz fuzzers
fuzzers: $(fuzzers)

fuzz: $(fuzzers)
	tests/fuzz/run $(BUILD)/fuzz $(FUZZ_SECONDS)

.PHONY: bench
bench: all
	BUILD=$(abspath $(BUILD)) bench/run

# Release 14 defines the layout; other releases differ in details.
CLANG_FORMAT ?= $(firstword $(shell command -v clang-format-14) clang-format)
c_files = $(shell find include lib cmd tests tools examples -name '*.[ch]')

.PHONY: lint format abi circles
circles: all
	@NM='$(NM)' OBJDUMP='$(OBJDUMP)' tests/lint/circles $(BUILD)

lint:
	tests/lint/layers
	@CC='$(CC)' tests/lint/abi
	tests/lint/shell
	tests/lint/names
	tests/lint/words
	tests/lint/tidy
	tests/lint/python
	mandoc -T lint -W warning $(man)
	@$(CLANG_FORMAT) --dry-run -Werror $(c_files)

# The C interface is as include/gpusim.abi lists it, and the library exports it.
abi: $(BUILD)/libgpusim.so
	CC='$(CC)' tests/lint/abi $<

format:
	@$(CLANG_FORMAT) -i $(c_files)

# ---- data and demo

.PHONY: data data-fashion demo
data:
	tools/fetch-mnist data/mnist

data-fashion:
	tools/fetch-fashion data/fashion

# The programs alone, for whoever wants to see something soon.
demo: $(bin) $(fetchers:%=$(BUILD)/bin/%) data
	$(BUILD)/bin/mnist-train --devices 4 --data data/mnist

# ---- install

# MODE:SOURCE:TARGET of each file; tools/tree installs them, strips those whose MODE ends with s, and removes them.
to = $(foreach f,$(2),$(1):$(f):$(3)/$(notdir $(f)))
share     := $(PREFIX)/share
installed := $(call to,755s,$(bin) $(mpi_bin),$(PREFIX)/bin) \
    $(call to,644,include/gpusim.h include/gpusim_lab.h include/gpusim_kernel.h,$(PREFIX)/include) \
    $(call to,755,$(fetchers:gpusim-%=tools/%),$(share)/gpusim/fetch) $(call to,644,tools/fetch-lib.bash,$(share)/gpusim/fetch) \
    $(foreach f,$(fetchers),link:../share/gpusim/fetch/$(f:gpusim-%=%):$(PREFIX)/bin/$f) \
    $(call to,644s,$(BUILD)/libgpusim.a,$(LIBDIR)) \
    644s:$(BUILD)/libgpusim.so:$(LIBDIR)/libgpusim.so.$(SOVERSION) link:libgpusim.so.$(SOVERSION):$(LIBDIR)/libgpusim.so \
    $(foreach m,$(man),$(call to,644,$m,$(share)/man/man$(subst .,,$(suffix $m)))) \
    $(call to,644,$(wildcard examples/data/*.csv),$(share)/gpusim/data) \
    $(call to,644,$(configs),$(share)/gpusim/config) \
    $(call to,644,$(clusters),$(share)/gpusim/clusters) \
    $(call to,644,$(failures),$(share)/gpusim/failures) \
    644:cmd/gpuctl/completion.bash:$(share)/bash-completion/completions/gpuctl \
    644:cmd/gpuctl/completion.zsh:$(ZSHDIR)/_gpuctl \
    644:cmd/gpuctl/completion.fish:$(share)/fish/vendor_completions.d/gpuctl.fish \
    $(foreach p,mnist-train gpucoord gpudev,link:gpuctl:$(share)/bash-completion/completions/$p link:gpuctl.fish:$(share)/fish/vendor_completions.d/$p.fish)
# The home, and a link by which gpuctl finds it from its own folder.
nccl_dir  := $(LIBDIR)/gpusim/nccl
installed += $(foreach h,$(nccl_inc) $(not_here_inc) $(not_here_lib) $(home)/include/gpusim_no_driver.h,644:$h:$(h:$(home)/%=$(nccl_dir)/%)) $(call to,755s,$(nvcc_bin),$(nccl_dir)/bin) \
    $(call to,755s,$(home_libs:%=$(home)/lib/lib%),$(nccl_dir)/lib) $(call to,644,$(home)/lib/libcudadevrt.a,$(nccl_dir)/lib) \
    link:../libcudart.so.12:$(nccl_dir)/lib/stubs/libcuda.so link:libcudart.so.12:$(nccl_dir)/lib/libcudart_static.a link:libcudart.so.12:$(nccl_dir)/lib/libcuda.so.1 link:libcudart.so.12:$(nccl_dir)/lib/libnvToolsExt.so $(foreach l,$(home_libs),link:lib$l:$(nccl_dir)/lib/lib$(basename $l)) link:lib:$(nccl_dir)/lib64 \
    link:$(shell realpath -ms --relative-to='$(share)/gpusim' '$(nccl_dir)'):$(share)/gpusim/nccl
# The package, and links to it in a folder that has nothing else, for gpuctl run.
installed += $(foreach p,$(python),644:$p:$(p:$(BUILD)/python/%=$(PYTHONDIR)/%)) \
    $(foreach l,gpusim $(py_info),link:$(shell realpath -ms --relative-to='$(share)/gpusim/python' '$(PYTHONDIR)')/$l:$(share)/gpusim/python/$l)
manifest  := $(share)/gpusim/installed

.PHONY: install uninstall deb
install: all
	@pc=$$(mktemp -d) && trap "rm -rf $$pc" EXIT && \
	for in in $(call room,client)/gpusim.pc.in $(call room,nccl)/gpusim-nccl.pc.in; do \
	    sed 's|@PREFIX@|$(PREFIX)|;s|@LIBDIR@|$(LIBDIR)|;s|@VERSION@|$(VERSION)|;s|@LIBS@|$(api_libs)|' \
	        $$in >$$pc/$$(basename $$in .in) || exit 1; \
	done && \
	printf 'LIBDIR = "%s"\nBINDIR = "%s"\n' '$(LIBDIR)' '$(PREFIX)/bin' >$$pc/_where.py && \
	STRIP='$(STRIP)' tools/tree install '$(DESTDIR)' $(manifest) $(installed) \
	    644:$$pc/gpusim.pc:$(LIBDIR)/pkgconfig/gpusim.pc 644:$$pc/gpusim-nccl.pc:$(LIBDIR)/pkgconfig/gpusim-nccl.pc \
	    644:$$pc/_where.py:$(PYTHONDIR)/gpusim/_where.py

uninstall:
	@tools/tree uninstall '$(DESTDIR)' $(manifest)

# The files of the Debian packages lie in BUILD while it is made.
deb: all
	@CC='$(CC)' tools/deb $(BUILD)

.PHONY: clean help
clean:
	rm -rf $(BUILD)

help:
	@echo 'all            programs in $(BUILD)/bin, libgpusim, examples'
	@echo 'check          every test; check-unit and check-bats run one half'
	@echo 'sim            run SEEDS=10000 simulated worlds, from SEED=1 on; part of check'
	@echo 'sim-digest     one line, the digest of those worlds: a change that keeps it changes no behaviour'
	@echo 'demo           fetch MNIST and train it on four devices'
	@echo 'data           fetch MNIST into data/mnist; data-fashion: Fashion-MNIST'
	@echo 'asan, tsan     the tests under the sanitizers (their own build folders)'
	@echo 'fuzz           run the fuzzers, FUZZ_SECONDS each'
	@echo 'bench          speed beside the peers that are installed, as ratios; bench/README.md'
	@echo 'circles        files that call each other in a circle, from their objects'
	@echo 'lint, format   layer check, shellcheck, mandoc, clang-format'
	@echo 'abi            the C interface against include/gpusim.abi'
	@echo 'install        install into DESTDIR/PREFIX, stripped (not with STRIP=:); uninstall removes it'
	@echo 'deb            make two Debian packages in $(BUILD); needs dpkg-dev'
	@echo 'clean          remove $(BUILD)'
	@echo 'Variables: CC CFLAGS LDFLAGS PREFIX DESTDIR BUILD SAN WERROR=1 TEST_JOBS=4 PROVE_FLAGS V=1'
	@echo 'CROSS=aarch64-linux-gnu- builds for arm64, with the tools of that prefix and the libraries that they find'
	@echo 'MPI=0 leaves out mnist-train --backend mpi, which needs MPICC=mpicc'

-include $(lib_obj:.o=.d) $(fuzz_obj:.o=.d) \
    $(foreach r,cudart nccl nvcc,$(wildcard $(BUILD)/obj/$(call room,$r)/*.d)) \
    $(wildcard $(BUILD)/obj/cmd/*/*.d $(BUILD)/obj/cmd/*/*/*.d $(BUILD)/obj/tests/*/*.d $(BUILD)/obj/tests/*/*/*.d \
    $(BUILD)/fuzz/obj/tests/fuzz/*.d)
