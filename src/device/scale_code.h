/* device/scale_code.h - the kernels of scale.c, as text that the driver
 * compiles for the device it finds: PTX, so that neither nvcc nor a list of
 * devices is needed to build. tests/gpu assembles it with ptxas where that is
 * installed.
 *
 *   hvd_scale_X(dst, src, count, factor)    dst[i] = src[i] * factor
 *
 * Rounded as on the host (reduce/scale.c): float32 by way of a double, 16 bits
 * by way of a float, to nearest even; a NaN of bfloat16 is 0x7fc0. */
#ifndef DEVICE_SCALE_CODE_H
#define DEVICE_SCALE_CODE_H

/* From `i`, each thread of the grid its elements; `a` and `b` are where that of
 * this turn is read and written. */
#define SCALE_KERNEL(name, log2_nbytes, registers, body)               \
    ".visible .entry " name "(.param .u64 p_dst, .param .u64 p_src,\n" \
    "    .param .u64 p_count, .param .f64 p_factor)\n"                 \
    "{\n"                                                              \
    " .reg .pred p;\n"                                                 \
    " .reg .b32 r0, r1, r2;\n"                                         \
    " .reg .b64 i, n, stride, dst, src, at, a, b;\n"                   \
    " .reg .f64 factor;\n" registers " ld.param.u64 dst, [p_dst];\n"   \
    " ld.param.u64 src, [p_src];\n"                                    \
    " ld.param.u64 n, [p_count];\n"                                    \
    " ld.param.f64 factor, [p_factor];\n"                              \
    " cvta.to.global.u64 dst, dst;\n"                                  \
    " cvta.to.global.u64 src, src;\n"                                  \
    " mov.u32 r0, %ctaid.x;\n"                                         \
    " mov.u32 r1, %ntid.x;\n"                                          \
    " mov.u32 r2, %tid.x;\n"                                           \
    " mul.wide.u32 i, r0, r1;\n"                                       \
    " cvt.u64.u32 at, r2;\n"                                           \
    " add.u64 i, i, at;\n"                                             \
    " mov.u32 r0, %nctaid.x;\n"                                        \
    " mul.wide.u32 stride, r0, r1;\n"                                  \
    "again:\n"                                                         \
    " setp.ge.u64 p, i, n;\n"                                          \
    " @p bra done;\n"                                                  \
    " shl.b64 at, i, " log2_nbytes ";\n"                               \
    " add.u64 a, src, at;\n"                                           \
    " add.u64 b, dst, at;\n" body " add.u64 i, i, stride;\n"           \
    " bra again;\n"                                                    \
    "done:\n"                                                          \
    " ret;\n"                                                          \
    "}\n"

static const char scale_code[] = ".version 6.4\n"
                                 ".target sm_75\n"
                                 ".address_size 64\n"

    SCALE_KERNEL("hvd_scale_float64", "3", " .reg .f64 x;\n",
                 " ld.global.f64 x, [a];\n"
                 " mul.rn.f64 x, x, factor;\n"
                 " st.global.f64 [b], x;\n")

        SCALE_KERNEL("hvd_scale_float32", "2",
                     " .reg .f32 s;\n"
                     " .reg .f64 x;\n",
                     " ld.global.f32 s, [a];\n"
                     " cvt.f64.f32 x, s;\n"
                     " mul.rn.f64 x, x, factor;\n"
                     " cvt.rn.f32.f64 s, x;\n"
                     " st.global.f32 [b], s;\n")

            SCALE_KERNEL("hvd_scale_float16", "1",
                         " .reg .b16 h;\n"
                         " .reg .f32 s, f;\n",
                         " cvt.rn.f32.f64 f, factor;\n"
                         " ld.global.b16 h, [a];\n"
                         " cvt.f32.f16 s, h;\n"
                         " mul.rn.f32 s, s, f;\n"
                         " cvt.rn.f16.f32 h, s;\n"
                         " st.global.b16 [b], h;\n")

                SCALE_KERNEL("hvd_scale_bfloat16", "1",
                             " .reg .pred nan;\n"
                             " .reg .b16 h;\n"
                             " .reg .b32 u, odd;\n"
                             " .reg .f32 s, f;\n",
                             " cvt.rn.f32.f64 f, factor;\n"
                             " ld.global.u16 h, [a];\n"
                             " cvt.u32.u16 u, h;\n"
                             " shl.b32 u, u, 16;\n"
                             " mov.b32 s, u;\n"
                             " mul.rn.f32 s, s, f;\n"
                             " setp.nan.f32 nan, s, s;\n"
                             " mov.b32 u, s;\n"
                             " shr.u32 odd, u, 16;\n"
                             " and.b32 odd, odd, 1;\n"
                             " add.u32 u, u, 0x7fff;\n"
                             " add.u32 u, u, odd;\n"
                             " shr.u32 u, u, 16;\n"
                             " @nan mov.u32 u, 0x7fc0;\n"
                             " cvt.u16.u32 h, u;\n"
                             " st.global.u16 [b], h;\n");

#endif
