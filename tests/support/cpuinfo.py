"""What the kernel prints of three CPUs in /proc/cpuinfo, shortened to the lines that are read."""

AMD = (
    2
    * """\
processor\t: 0
vendor_id\t: AuthenticAMD
cpu family\t: 25
model\t\t: 1
model name\t: AMD EPYC
stepping\t: 1
cpu MHz\t\t: 2445.430
flags\t\t: fpu vme sse sse2 ssse3 fma sse4_1 sse4_2 avx f16c hypervisor bmi1 avx2 bmi2 vaes
bugs\t\t: sysret_ss_attrs null_seg

"""
)

INTEL = """\
processor\t: 0
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 143
model name\t: Intel(R) Xeon(R) Platinum 8480+
stepping\t: 8
flags\t\t: fpu sse4_2 fma avx f16c avx2 avx512f avx512bw avx_vnni avx512_bf16 avx512_vnni amx_bf16 \
avx512_fp16 amx_tile amx_int8
vmx flags\t: vnmi preemption_timer
"""

ARM = """\
processor\t: 0
BogoMIPS\t: 2000.00
Features\t: fp asimd evtstrm aes crc32 atomics fphp asimdhp sve sve2 i8mm bf16
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x0
CPU part\t: 0xd4f
CPU revision\t: 1
"""

ARM_OF_TWO_KINDS = """\
processor\t: 0
Features\t: fp asimd aes sve
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x2
CPU part\t: 0xd05
CPU revision\t: 0

processor\t: 1
Features\t: fp asimd aes
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x2
CPU part\t: 0xd0b
CPU revision\t: 0
"""
