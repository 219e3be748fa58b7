/* A plan on this machine: its linked kernels, its memory, its runs. A module has one variant, or
 * one for each of its sizes (module.c, the interface for applications). Functions are those of
 * deploy/module.h of the same name. */
#ifndef KILN_DEPLOY_MODULE_RUN_H
#define KILN_DEPLOY_MODULE_RUN_H

#include "base/status.h"
#include "base/target.h"
#include "deploy/format.h"
#include "deploy/module.h"
#include "deploy/runtime/kept_port.h"

typedef struct kiln_variant kiln_variant;

/* `plan` must be checked, and its data must outlive the variant. `beside` NULL: the variant has its
 * own threads; else it uses those of `beside`, which must outlive it and not run at the same
 * time. */
KILN_MUST_USE kiln_status kiln_variant_link(const kiln_module_plan *plan,
                                            const kiln_module_options *options,
                                            const kiln_variant *beside, kiln_variant **out_variant);
KILN_MUST_USE kiln_status kiln_variant_pack(kiln_variant *variant);
/* Cannot run. `threads` as kiln_module_inspect. */
KILN_MUST_USE kiln_status kiln_variant_inspect(const kiln_module_plan *plan, uint32_t threads,
                                               kiln_variant **out_variant);
void kiln_variant_close(kiln_variant *variant); /* NULL is fine */

uint32_t kiln_variant_step_count(const kiln_variant *variant);
uint32_t kiln_variant_threads(const kiln_variant *variant);
const kiln_module_step *kiln_variant_step_at(const kiln_variant *variant, uint32_t index);
const void *kiln_variant_step_code(const kiln_variant *variant, uint32_t index, size_t *out_bytes);
size_t kiln_variant_arena_bytes(const kiln_variant *variant);
size_t kiln_variant_packed_bytes(const kiln_variant *variant);
const kiln_module_port *kiln_variant_input(const kiln_variant *variant, uint32_t index);
const kiln_module_port *kiln_variant_output(const kiln_variant *variant, uint32_t index);
int64_t kiln_variant_output_rows(const kiln_variant *variant, uint32_t index);
const kiln_target *kiln_variant_device(const kiln_variant *variant);
kiln_module_device_info kiln_variant_describe_device(const kiln_variant *variant);
void *kiln_variant_input_memory(kiln_variant *variant, uint32_t index);
void *kiln_variant_output_memory(kiln_variant *variant, uint32_t index);
/* Aligned memory of a port's size, which a run uses without a copy. */
uint8_t *kiln_variant_input_stage(kiln_variant *variant, uint32_t index);
uint8_t *kiln_variant_output_stage(kiln_variant *variant, uint32_t index);

/* Makes the output the input of the next run, in memory of the variant: on the device that has both
 * ports, unless `stays_in_process`. `*out_kept` lives as long as the variant. The caller of a run
 * must advance it. RESOURCE_EXHAUSTED: not enough memory. */
KILN_MUST_USE kiln_status kiln_variant_keep(kiln_variant *variant, uint32_t input, uint32_t output,
                                            bool stays_in_process, kiln_kept_port **out_kept);
/* The same memory for another variant, which must be closed first. */
void kiln_variant_share_kept(kiln_variant *variant, kiln_kept_port *kept);

void kiln_variant_set_hook(kiln_variant *variant, kiln_module_hook hook, void *context);
uint64_t kiln_variant_step_device_ns(const kiln_variant *variant);
int kiln_variant_run(kiln_variant *variant, const void *const *inputs, void *const *outputs);
int kiln_variant_run_tensors(kiln_variant *variant, const kiln_module_tensor *const *inputs,
                             const kiln_module_tensor *const *outputs);
const char *kiln_variant_error(const kiln_variant *variant);

#endif
