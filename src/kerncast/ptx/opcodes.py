"""The table of PTX opcodes, and the table of the forms that are executed.

The parser, the engines, the counts, the machine code and the model of an SM all ask here, so that no set of opcodes
stands anywhere else. A new instruction is a row of each table and one function in each engine.
Source: NVIDIA, Parallel Thread Execution ISA 8.8, chapter 9.
"""

from dataclasses import dataclass
from enum import Enum, auto


class MemoryAccess(Enum):
    """The ways to access memory."""

    LOAD = "load"
    STORE = "store"
    ATOMIC = "atomic"
    """update that gives the old value"""
    REDUCTION = "reduction"
    """update that gives nothing"""
    COPY = "copy"
    """reads one state space and writes another one; no register holds the data"""


class Flow(Enum):
    """The ways to leave the straight line of control, or to wait."""

    BRANCH = "branch"
    LEAVE = "leave"
    """a return from the function, or the end of the thread"""
    TRAP = "trap"
    BREAKPOINT = "breakpoint"
    """end of the kernel, as by a trap, but allowed in the middle of a block"""
    CALL = "call"
    """call of a function of the driver; all others are inlined"""
    BARRIER = "barrier"


class Trait(Enum):
    """Something that a few opcodes have in common and that some part of the package has to know."""

    CARRY = auto()
    """reads the carry flag"""
    COMPARE = auto()
    """compares, and may combine the result with a predicate"""
    CROSS_LANE = auto()
    """the lanes of a warp exchange values"""
    LANE = auto()
    """gives each lane a value of its own, whatever it reads"""
    INERT = auto()
    """counted, and without effect on any value"""
    FENCE = auto()
    """orders memory accesses"""
    COMMIT = auto()
    """ends a group of asynchronous operations"""
    AWAIT = auto()
    """waits until groups of asynchronous operations are done"""
    MODE = auto()
    """the modifiers say what the instruction does, as in shfl.sync.bfly; its name in the counts has them"""
    LOGIC = auto()
    """a Boolean operation, which the compiler joins with others"""
    HALVES = auto()
    """makes the two halves of a 64-bit result apart from one another"""
    FREE = auto()
    """costs nothing where the compiler predicates a block"""
    SIGNED = auto()
    """becomes other machine code for signed than for unsigned integers"""
    PRECISE = auto()
    """becomes other machine code for each rounding and precision"""
    LONG = auto()
    """is too long on floats for a block that the compiler predicates"""
    CLUSTER = auto()
    """concerns other blocks of the cluster"""
    ROWS = auto()
    """moves matrices, whose rows lie where single lanes say"""
    SAMPLED = auto()
    """reads or writes through the object of a texture or a surface"""
    RARE = auto()
    """has machine code for rare operands, such as subnormal ones"""
    ACCUMULATE = auto()
    """reads its result, too"""
    DESCRIBED = auto()
    """reads shared memory where a descriptor in a register says"""
    TENSOR_MEMORY = auto()
    """takes, frees, reads or writes tensor memory"""
    BULK = auto()
    """one thread copies many bytes, in a row or as a box of a tensor"""
    PHASE = auto()
    """works on an mbarrier: a barrier in shared memory whose phases end when all arrivals and bytes have come"""
    WAIT = auto()
    """asks whether a phase has ended; a kernel repeats it until then"""
    MEET = auto()
    """the warps of a group of four go on together: what it waits for was done by all of them"""


@dataclass(frozen=True, slots=True)
class Opcode:
    """One opcode: an instruction's name before the first dot, or as many parts of it as tell what it does."""

    name: str
    """ld; with several parts where the first alone says little, as in cp.async.bulk"""
    work: str = "move"
    """class of work where it is not that of floats: integer, control, memory or move"""
    flops: int = 0
    """floating-point operations of one thread, where the instruction works on floats"""
    is_special: bool = False
    """whether the unit for special functions does it on floats"""
    access: MemoryAccess | None = None
    flow: Flow | None = None
    has_result: bool = True
    """whether the first operand is written; a barrier's is if it reduces"""
    fewest_sources: int | None = None
    """least number of operands read by an instruction with one result or two; None: there is one result"""
    machine: str = ""
    """only machine operation that the instruction becomes, such as FMA; empty: none, or it depends"""
    pipe: str = ""
    """pipe that runs it where the machine code is not known; empty: the type decides"""
    traits: frozenset[Trait] = frozenset()
    group: str = ""
    """kind of the groups of asynchronous operations that it belongs to, ends or waits for; empty: none"""
    one_of: frozenset[str] = frozenset()
    """modifiers that say what it does, one of which it must have; empty: it needs none"""

    def has(self, trait: Trait) -> bool:
        """Return whether this opcode has a trait."""
        return trait in self.traits


@dataclass(frozen=True, slots=True)
class Form:
    """One form of an instruction that is executed."""

    types: tuple[frozenset[str], ...]
    """allowed types of each type modifier"""
    modifiers: frozenset[str]
    """other allowed modifiers, most of them optional"""
    needed: frozenset[str]
    """modifiers that it must have"""
    operands: frozenset[int]
    """allowed numbers of operands"""
    addresses: frozenset[int] = frozenset()
    """positions of the memory operands"""
    label: int | None = None
    """position of the branch target; None without one"""
    takes_vectors: bool = False
    """whether registers may stand in braces though it accesses no memory"""
    takes_negated: bool = False
    """whether a predicate among its operands may have an exclamation mark"""


_COMPARE = "eq ne lt le gt ge lo ls hi hs equ neu ltu leu gtu geu num nan"
_TESTS = "finite infinite number notanumber normal subnormal"
_KINDS = "kind::f16 kind::tf32 kind::f8f6f4 kind::i8"
_SCALED_KINDS = "kind::mxf8f6f4 kind::mxf4 kind::mxf4nvf4"
_REDUCES = "add min max and or xor"
_FIRST_BLOCK = "get_first_ctaid::x get_first_ctaid::y get_first_ctaid::z"
_VIDEO = " ".join(f"v{name}{count}" for count in (2, 4) for name in ("add", "sub", "avrg", "min", "max", "absdiff"))

# Columns: opcodes | work | work on floats: operations or special | the other fields of Opcode, as words | one of these.
# A dash is an instruction that moves values about, as comparison, minimum, sign and conversion of floats do.
_OPCODES = f"""
add sub              | integer | 1       | machine=ADD
mul                  | integer | 1       | machine=MUL signed
fma                  | -       | 2       | machine=FMA
mad                  | integer | 2       | machine=FMA signed
addc subc            | integer | -       | carry
madc                 | integer | -       | carry pipe=imad
div                  | integer | special | signed precise long rare
rem                  | integer | -       | signed
sqrt rcp             | -       | special | precise long rare
rsqrt                | -       | special | precise rare
ex2 lg2 sin cos      | -       | special | machine=MUFU rare
tanh                 | -       | special | pipe=xu
neg abs min max      | integer | -       |
copysign             | -       | -       |
testp                | -       | -       | | {_TESTS}
and or xor not       | integer | -       | logic halves
cnot shl shr         | integer | -       |
shf                  | integer | -       | | l r
lop3 prmt fns sad    | integer | -       |
popc clz brev bfind  | integer | -       |
bfe bfi              | integer | -       |
bmsk                 | integer | -       | | clamp wrap
mul24 mad24          | integer | -       | pipe=imad | lo
dp4a                 | integer | -       |
dp2a                 | integer | -       | pipe=imad | lo hi
{_VIDEO}             | integer | -       |
vset2 vset4          | integer | -       | | eq ne lt le gt ge
setp                 | integer | -       | compare sources=2 | {_COMPARE}
set                  | integer | -       | compare | {_COMPARE}
selp                 | -       | -       | halves
slct                 | integer | -       |
cvt                  | -       | -       | signed precise
cvt.pack             | integer | -       |
mov                  | -       | -       | halves free
cvta                 | -       | -       | free
createpolicy         | -       | -       |
isspacep             | -       | -       |
ld ldu               | memory  | -       | access=load
st                   | memory  | -       | access=store results=0
tex                  | memory  | -       | access=load sampled pipe=lsu machine=TEX | 1d 2d 3d a1d a2d
tld4                 | memory  | -       | access=load sampled pipe=lsu machine=TLD4 | 2d a2d
suld                 | memory  | -       | access=load sampled pipe=lsu machine=SULD | 1d 2d 3d a1d a2d
sust                 | memory  | -       | access=store sampled pipe=lsu machine=SUST results=0 | 1d 2d 3d a1d a2d
atom                 | memory  | -       | access=atomic lane | add min max inc dec exch cas and or xor
red                  | memory  | -       | access=reduction results=0 | add min max inc dec and or xor
st.async             | memory  | -       | access=store phase results=0
red.async            | memory  | -       | access=reduction phase results=0 | add min max inc dec and or xor
shfl                 | -       | -       | cross_lane lane mode sources=3 machine=SHFL | up down bfly idx
vote                 | control | -       | cross_lane mode | all any uni ballot
match                | control | -       | cross_lane lane sources=1 pipe=lsu | any all
activemask           | control | -       | cross_lane lane
elect                | control | -       | cross_lane lane sources=0
redux                | -       | -       | cross_lane pipe=lsu | add min max and or xor
bar barrier          | control | -       | flow=barrier mode machine=BAR | sync arrive popc and or
barrier.cluster.arrive | control | -     | fence cluster pipe=branch results=0
barrier.cluster.wait | control | -       | flow=barrier fence cluster pipe=branch results=0
mapa getctarank      | integer | -       | cluster
mbarrier.init mbarrier.inval mbarrier.expect_tx mbarrier.complete_tx | control | - | phase pipe=lsu results=0
mbarrier.arrive mbarrier.arrive_drop | control | - | phase lane pipe=lsu
mbarrier.test_wait mbarrier.try_wait | control | - | phase wait lane pipe=lsu
mbarrier.pending_count | integer | -       |
clusterlaunchcontrol.try_cancel | control | - | phase pipe=lsu results=0
clusterlaunchcontrol.query_cancel | - | -   | | is_canceled get_first_ctaid {_FIRST_BLOCK}
cp.async.mbarrier.arrive | control | -     | phase pipe=lsu results=0
membar               | -       | -       | inert fence results=0
fence                | -       | -       | inert fence pipe=lsu results=0
bra                  | control | -       | flow=branch free results=0
brx                  | control | -       | flow=branch pipe=branch results=0
ret                  | control | -       | flow=leave results=0
exit                 | control | -       | flow=leave pipe=branch results=0
trap                 | control | -       | flow=trap pipe=branch results=0
brkpt                | control | -       | flow=breakpoint pipe=branch results=0
call                 | control | -       | flow=call lane pipe=branch results=0 | vprintf __assertfail
nanosleep            | -       | -       | inert pipe=branch results=0
prefetch prefetchu   | -       | -       | inert pipe=lsu results=0
prefetch.tensormap   | -       | -       | inert pipe=lsu results=0
pmevent              | -       | -       | inert results=0
griddepcontrol       | control | -       | inert results=0
mma mma.sp mma.sp::ordered_metadata | - | - | cross_lane lane pipe=tensor
movmatrix            | -       | -       | cross_lane lane pipe=lsu
wmma                 | -       | -       | lane pipe=tensor
wgmma                | -       | -       | pipe=tensor
ldmatrix             | memory  | -       | access=load lane rows machine=LDSM | x1 x2 x4
stmatrix             | memory  | -       | access=store rows results=0 machine=STSM | x1 x2 x4
cp.async             | memory  | -       | access=copy group=copies machine=LDGSTS results=0
cp.async.bulk cp.async.bulk.tensor | memory | - | access=copy bulk pipe=lsu results=0
cp.reduce.async.bulk cp.reduce.async.bulk.tensor | memory | - | access=copy bulk pipe=lsu results=0 | {_REDUCES}
cp.async.bulk.prefetch cp.async.bulk.prefetch.tensor | control | - | inert pipe=lsu results=0
cp.async.bulk.commit_group | control | - | inert commit group=bulk pipe=branch results=0
cp.async.bulk.wait_group | control | -   | inert await group=bulk pipe=branch results=0
cp.async.commit_group | control | -      | inert commit group=copies results=0
cp.async.wait_group   | control | -      | inert await group=copies results=0
cp.async.wait_all     | control | -      | inert commit await group=copies results=0
wgmma.mma_async wgmma.mma_async.sp | - | - | cross_lane lane accumulate described group=products pipe=tensor
wgmma.fence          | control | -       | inert pipe=branch results=0
wgmma.commit_group   | control | -       | inert commit group=products pipe=branch results=0
wgmma.wait_group     | control | -       | inert await meet group=products pipe=branch results=0
tcgen05.alloc        | memory  | -       | access=store tensor_memory pipe=tensor results=0
tcgen05.dealloc tcgen05.relinquish_alloc_permit | control | - | tensor_memory pipe=tensor results=0
tcgen05.ld           | -       | -       | tensor_memory lane pipe=tensor
tcgen05.st           | -       | -       | tensor_memory pipe=tensor results=0
tcgen05.cp           | -       | -       | tensor_memory described pipe=tensor results=0
tcgen05.mma          | -       | -       | tensor_memory described pipe=tensor results=0 | {_KINDS} {_SCALED_KINDS}
tcgen05.mma.ws       | -       | -       | tensor_memory described pipe=tensor results=0 | {_KINDS}
tcgen05.commit       | control | -       | phase pipe=tensor results=0
tcgen05.wait::ld tcgen05.wait::st | control | - | inert pipe=tensor results=0
tcgen05.fence::before_thread_sync tcgen05.fence::after_thread_sync | control | - | inert pipe=tensor results=0
setmaxnreg           | control | -       | inert pipe=branch results=0 | inc dec
"""

_INT = "u16 s16 u32 s32 u64 s64"
_ROUND = "rn rz rm rp"
_HALF = "f16 bf16 f16x2 bf16x2"
_WORD = "b32 u32 s32 f32"
_SPACE = "global shared local param const shared::cta shared::cluster param::entry param::func"
_IN_BLOCK = "shared shared::cta"
_ORDER = f"acquire release relaxed cta cluster {_IN_BLOCK} shared::cluster"
_CACHE = (
    "ca cg cs cv lu wb wt nc volatile relaxed acquire release weak cta gpu sys cluster acq_rel mmio unified"
    " L1::evict_normal L1::evict_unchanged L1::evict_first L1::evict_last L1::no_allocate"
    " L2::evict_last L2::evict_normal L2::evict_first L2::64B L2::128B L2::256B"
)
_EVICT = "L2::evict_last L2::evict_normal L2::evict_first L2::evict_unchanged"
_ANY = f"b8 u8 s8 b16 b32 b64 f32 f64 f16 bf16 f16x2 bf16x2 {_INT}"
_TILES = "m8n8k4 m8n8k16 m8n8k32 m8n8k128 m16n8k4 m16n8k8 m16n8k16 m16n8k32 m16n8k64 m16n8k128 m16n8k256"
_SPARSE = "sync! aligned! row! col! m16n8k8 m16n8k16 m16n8k32 m16n8k64 m16n8k128"
_F8F6F4 = "e4m3 e5m2 e2m3 e3m2 e2m1"
_ROWS_OF_8 = "sync! aligned! m8n8! shared shared::cta trans x1 x2 x4"
_ROWS_OF_16 = "sync! aligned! m8n16! b8x16! shared shared::cta x1 x2 x4"
_FACTOR = "f16 bf16 tf32 f64 e4m3 e5m2"
_SMALL = "e4m3x2 e5m2x2 e2m3x2 e3m2x2 e2m1x2"
_IMAGES = "3d 4d 5d"
_RANKS, _PAIR = f"1d 2d {_IMAGES}", "multicast::cluster cta_group::1 cta_group::2"
_TELLS = "mbarrier::complete_tx::bytes!"
_REMOTE = f"relaxed! cluster! shared::cluster! {_TELLS}"
_AHEAD = "L2::64B L2::128B L2::256B"
_BLOCK_SCALED = (
    "sync! aligned! row! col! block_scale! m16n8k32 m16n8k64 kind::mxf8f6f4 kind::mxf4 kind::mxf4nvf4"
    " scale_vec::1X scale_vec::2X scale_vec::4X"
)
_GROUP_TILES = " ".join(f"m64n{n}k{k}" for n in range(8, 257, 8) for k in (8, 16, 32, 64, 256))
_MOVEMENTS = "32x32b 16x64b 16x128b 16x256b 16x32bx2 x1 x2 x4 x8 x16 x32 x64 x128"
_COPIES = "128x256b 128x128b 64x128b 32x128b warpx2::02_13 warpx2::01_23 warpx4"
_COLLECTOR = "collector::a::fill collector::a::use collector::a::lastuse collector::a::discard"
_GROUPS = "cta_group::1 cta_group::2"
_STATIONARY = _KINDS + "".join(
    f" collector::b{n}::{use}" for n in range(4) for use in ("fill", "use", "lastuse", "discard")
)
_PLAIN = f"{_KINDS} {_COLLECTOR}"
_SCALED = f"{_SCALED_KINDS} block_scale! block16 block32 scale_vec::1X scale_vec::2X scale_vec::4X {_COLLECTOR}"
_NUMBER = f"u8 s8 f16 bf16 f32 f64 {_INT}"

# Columns: opcodes | types | other modifiers, optional but for those with ``!`` | number of operands | kinds of operands
# that not all take. An instruction with two types has ``>`` between the types allowed first and those allowed second.
_FORMS = f"""
add sub           | {_INT}                        |                                     | 3
add sub           | s32                           | sat                                 | 3
add sub addc subc | u32 s32 u64 s64               | cc                                  | 3
add sub mul       | f32                           | {_ROUND} ftz sat                    | 3
add sub mul       | f64                           | {_ROUND}                            | 3
add sub mul       | {_HALF}                       | rn ftz sat                          | 3
add sub mul       | f32x2                         | {_ROUND} ftz                        | 3
add               | u16x2 s16x2                   |                                     | 3
mul               | {_INT}                        | lo hi                               | 3
mul               | u16 s16 u32 s32               | wide                                | 3
mad               | {_INT}                        | lo hi                               | 4
mad               | u16 s16 u32 s32               | wide                                | 4
mad madc          | u32 s32 u64 s64               | lo hi cc                            | 4
fma mad           | f32                           | {_ROUND} ftz sat                    | 4
fma mad           | f64                           | {_ROUND}                            | 4
fma               | {_HALF}                       | rn ftz sat relu                     | 4
fma               | f32x2                         | {_ROUND} ftz                        | 4
div rem           | {_INT}                        |                                     | 3
div               | f32                           | approx full ftz {_ROUND}            | 3
div               | f64                           | {_ROUND}                            | 3
neg abs           | s16 s32 s64 f64               |                                     | 2
neg abs           | f32 {_HALF}                   | ftz                                 | 2
min max           | {_INT} f64                    |                                     | 3
min max           | s32 s16x2                     | relu                                | 3
min max           | u16x2                         |                                     | 3
min max           | f32                           | ftz NaN                             | 3 4
min max           | {_HALF}                       | ftz NaN                             | 3
sqrt rcp          | f32                           | approx ftz {_ROUND}                 | 2
sqrt rcp          | f64                           | {_ROUND}                            | 2
rcp rsqrt         | f64                           | approx ftz                          | 2
rsqrt             | f32                           | approx ftz                          | 2
sin cos lg2       | f32                           | approx ftz                          | 2
ex2               | f32 {_HALF}                   | approx ftz                          | 2
tanh              | f32 {_HALF}                   | approx                              | 2
copysign          | f32 f64                       |                                     | 3
testp             | f32 f64                       | {_TESTS}                            | 2
and or xor        | pred b16 b32 b64              |                                     | 3
not               | pred b16 b32 b64              |                                     | 2
cnot              | b16 b32 b64                   |                                     | 2
shl               | b16 b32 b64                   |                                     | 3
shr               | b16 b32 b64 {_INT}            |                                     | 3
shf               | b32                           | l r clamp wrap                      | 4
lop3              | b32                           |                                     | 5
popc clz brev     | b32 b64                       |                                     | 2
bfind             | u32 s32 u64 s64               | shiftamt                            | 2
bfe               | u32 s32 u64 s64               |                                     | 4
bfi               | b32 b64                       |                                     | 5
bmsk              | b32                           | clamp wrap                          | 3
prmt              | b32                           |                                     | 4
sad               | {_INT}                        |                                     | 4
mul24             | u32 s32                       | lo                                  | 3
mad24             | u32 s32                       | lo                                  | 4
dp4a              | u32 s32 > u32 s32             |                                     | 4
dp2a              | u32 s32 > u32 s32             | lo hi                               | 4
{_VIDEO} | u32 s32 > u32 s32 > u32 s32 | sat add | 4
vset2 vset4       | u32 s32 > u32 s32             | eq ne lt le gt ge add               | 4
fns               | b32                           |                                     | 4
setp              | {_INT} b16 b32 b64 f64        | {_COMPARE} and or xor               | 3 4 5 | negated
setp              | f32 {_HALF}                   | {_COMPARE} and or xor ftz           | 3 4 5 | negated
set   | u32 s32 f32 f16 bf16 > {_INT} b16 b32 b64 f32 f64 f16 bf16 | {_COMPARE} and or xor ftz | 3 4 | negated
set               | u16 s16 > f16 bf16            | {_COMPARE} and or xor ftz           | 3 4 | negated
set               | f16x2 u32 s32 > f16x2         | {_COMPARE} and or xor ftz           | 3 4 | negated
set               | bf16x2 u32 s32 > bf16x2       | {_COMPARE} and or xor               | 3 4 | negated
selp              | {_ANY}                        |                                     | 4
slct              | {_ANY} > s32                  |                                     | 4
slct              | {_ANY} > f32                  | ftz                                 | 4
cvt               | {_NUMBER} > {_NUMBER}         | ftz sat relu rni rzi rmi rpi {_ROUND} | 2
cvt               | f16x2 bf16x2 > f32            | relu satfinite {_ROUND}             | 3
cvt               | f16 bf16 > f32                | satfinite! relu {_ROUND}            | 2
cvt               | tf32 > f32                    | rna! satfinite                      | 2
cvt               | tf32 > f32                    | rn! satfinite relu                  | 2
cvt               | tf32 > f32                    | rz! satfinite relu                  | 2
cvt               | {_SMALL} > f32                | rn! satfinite! relu                 | 3
cvt               | {_SMALL} > f16x2 bf16x2       | rn! satfinite! relu                 | 2
cvt               | f16x2 bf16x2 > {_SMALL}       | rn! relu                            | 2
cvt               | ue8m0x2 > f32                 | rz! satfinite                       | 3
cvt               | ue8m0x2 > f32                 | rp! satfinite                       | 3
cvt               | ue8m0x2 > bf16x2              | rz! satfinite                       | 2
cvt               | ue8m0x2 > bf16x2              | rp! satfinite                       | 2
cvt               | bf16x2 > ue8m0x2              | rn!                                 | 2
cvt.pack          | u16 s16 > s32                 | sat!                                | 3
cvt.pack          | u2 s2 u4 s4 u8 s8 > s32 > b32 | sat!                                | 4
mov               | pred {_ANY} b128              |                                     | 2
cvta              | u64                           | to {_SPACE}                         | 2
isspacep          |                               | {_SPACE}                            | 2
createpolicy      | b64                           | fractional! {_EVICT}                | 1 2
createpolicy      | b64                           | range! global {_EVICT}              | 4 | address 1
createpolicy      | b64                           | cvt! L2                             | 2
ld                | {_ANY}                        | {_CACHE} {_SPACE} v2 v4             | 2 | address 1
ld                | {_WORD}                       | {_CACHE} {_SPACE} v8                | 2 | address 1
ld                | b128                          | {_CACHE} {_SPACE}                   | 2 | address 1
ldu               | {_ANY}                        | global v2 v4                        | 2 | address 1
st                | {_ANY}                        | {_CACHE} {_SPACE} v2 v4             | 2 | address 0
st                | {_WORD}                       | {_CACHE} {_SPACE} v8                | 2 | address 0
st                | b128                          | {_CACHE} {_SPACE}                   | 2 | address 0
atom              | u32 s32 u64 f32 f64           | add {_CACHE} {_SPACE}               | 3 | address 1
atom              | {_HALF}                       | add noftz {_CACHE} {_SPACE}         | 3 | address 1
atom              | u32 s32 u64 s64               | min max {_CACHE} {_SPACE}           | 3 | address 1
atom              | u32                           | inc dec {_CACHE} {_SPACE}           | 3 | address 1
atom              | b32 b64                       | and or xor exch {_CACHE} {_SPACE}   | 3 | address 1
atom              | b128                          | exch {_CACHE} {_SPACE}              | 3 | address 1
atom              | b16 b32 b64 b128              | cas {_CACHE} {_SPACE}               | 4 | address 1
atom              | f32                           | add v2 v4 {_CACHE} global           | 3 | address 1
atom              | f16x2 bf16x2                  | add noftz v2 v4 {_CACHE} global     | 3 | address 1
atom              | f16 bf16                      | add noftz v2 v4 v8 {_CACHE} global  | 3 | address 1
red               | u32 s32 u64 f32 f64           | add {_CACHE} {_SPACE}               | 2 | address 0
red               | {_HALF}                       | add noftz {_CACHE} {_SPACE}         | 2 | address 0
red               | f32                           | add v2 v4 {_CACHE} global           | 2 | address 0
red               | f16x2 bf16x2                  | add noftz v2 v4 {_CACHE} global     | 2 | address 0
red               | f16 bf16                      | add noftz v2 v4 v8 {_CACHE} global  | 2 | address 0
red               | u32 s32 u64 s64               | min max {_CACHE} {_SPACE}           | 2 | address 0
red               | u32                           | inc dec {_CACHE} {_SPACE}           | 2 | address 0
red               | b32 b64                       | and or xor {_CACHE} {_SPACE}        | 2 | address 0
st.async          | b32 u32 s32 f32 b64 u64 s64 f64 | weak shared::cluster! {_TELLS} v2 v4 | 3 | address 0 2
red.async         | u32 s32 u64                   | {_REMOTE} add | 3 | address 0 2
red.async         | u32 s32                       | {_REMOTE} min max | 3 | address 0 2
red.async         | u32                           | {_REMOTE} inc dec | 3 | address 0 2
red.async         | b32                           | {_REMOTE} and or xor | 3 | address 0 2
shfl              | b32                           | up down bfly idx                    | 4 5
shfl              | b32                           | sync! up down bfly idx              | 5 6
vote              | pred b32                      | all any uni ballot                  | 2 | negated
vote              | pred b32                      | sync! all any uni ballot            | 3 | negated
match             | b32 b64                       | sync! any                           | 3
match             | b32 b64                       | sync! all                           | 3 4
mma               | f16 f32 > f16 > f16 > f16 f32     | sync! aligned! row col m8n8k4!      | 4 | vectors
mma               | f16 f32 f64 > {_FACTOR} > {_FACTOR} > f16 f32 f64 | sync! aligned! row! col! {_TILES} | 4 | vectors
mma               | s32 > s8 u8 s4 u4 > s8 u8 s4 u4 > s32 | sync! aligned! row! col! satfinite {_TILES} | 4 | vectors
mma               | s32 > b1 > b1 > s32           | sync! aligned! row! col! popc! and! {_TILES} | 4 | vectors
mma               | s32 > b1 > b1 > s32           | sync! aligned! row! col! popc! xor! {_TILES} | 4 | vectors
mma | f16 f32 > {_F8F6F4} > {_F8F6F4} > f16 f32 | sync! aligned! row! col! kind::f8f6f4! m16n8k32! | 4 | vectors
mma               | f32 > {_F8F6F4} > {_F8F6F4} > f32 > ue8m0 ue4m3 | {_BLOCK_SCALED} | 8 | vectors
mma.sp mma.sp::ordered_metadata | f16 f32 > {_FACTOR} > {_FACTOR} > f16 f32 | {_SPARSE} | 6 | vectors
mma.sp::ordered_metadata | f16 f32 > {_F8F6F4} > {_F8F6F4} > f16 f32 | {_SPARSE} kind::f8f6f4! | 6 | vectors
mma.sp mma.sp::ordered_metadata | s32 > s8 u8 s4 u4 > s8 u8 s4 u4 > s32 | {_SPARSE} satfinite | 6 | vectors
wgmma.mma_async   | f16 f32 > {_FACTOR} > {_FACTOR} | sync! aligned! {_GROUP_TILES} | 6 7 8 | vectors
wgmma.mma_async   | s32 > s8 u8 > s8 u8           | sync! aligned! satfinite {_GROUP_TILES} | 4 | vectors
wgmma.mma_async.sp | f16 f32 > {_FACTOR} > {_FACTOR} | sync! aligned! {_GROUP_TILES} | 8 9 10 | vectors
wgmma.mma_async.sp | s32 > s8 u8 > s8 u8           | sync! aligned! satfinite {_GROUP_TILES} | 6 | vectors
wgmma.mma_async   | s32 > b1 > b1                 | sync! aligned! and! popc! {_GROUP_TILES} | 4 | vectors
wgmma.fence wgmma.commit_group |                  | sync! aligned!                      | 0
wgmma.wait_group  |                               | sync! aligned!                      | 1
tcgen05.alloc     | b32                           | {_GROUPS} sync! aligned! shared::cta | 2 | address 0
tcgen05.dealloc   | b32                           | {_GROUPS} sync! aligned!            | 2
tcgen05.relinquish_alloc_permit |                 | {_GROUPS} sync! aligned!            | 0
tcgen05.ld        | b32                           | sync! aligned! pack::16b {_MOVEMENTS} | 2 3 | address 1
tcgen05.st        | b32                           | sync! aligned! unpack::16b {_MOVEMENTS} | 2 3 | address 0
tcgen05.commit    | b64                           | {_GROUPS} mbarrier::arrive::one! shared::cluster | 1 | address 0
tcgen05.commit    | b64 | {_GROUPS} mbarrier::arrive::one! shared::cluster! multicast::cluster! | 2 | address 0
tcgen05.wait::ld tcgen05.wait::st |               | sync! aligned!                      | 0
tcgen05.fence::before_thread_sync tcgen05.fence::after_thread_sync | |                  | 0
tcgen05.cp        |                               | {_GROUPS} {_COPIES}                 | 2 | address 0
tcgen05.mma       |                               | {_GROUPS} {_PLAIN}                  | 5 6 7 | address 0
tcgen05.mma       |                               | {_GROUPS} {_PLAIN}                  | 5 6 7 | address 0 1
tcgen05.mma.ws    |                               | cta_group::1! {_STATIONARY}         | 5 | address 0
tcgen05.mma.ws    |                               | cta_group::1! {_STATIONARY}         | 5 | address 0 1
tcgen05.mma       |                               | {_GROUPS} {_SCALED} | 7 | address 0 4 5
tcgen05.mma       |                               | {_GROUPS} {_SCALED} | 7 | address 0 1 4 5
setmaxnreg        | u32                           | inc dec sync! aligned!              | 1
movmatrix         | b16                           | sync! aligned! trans! m8n8!         | 2
ldmatrix          | b16                           | {_ROWS_OF_8}                        | 2 | address 1
stmatrix          | b16                           | {_ROWS_OF_8}                        | 2 | address 0
ldmatrix          |                               | {_ROWS_OF_16} b4x16_p64!            | 2 | address 1
ldmatrix          |                               | {_ROWS_OF_16} b6x16_p32!            | 2 | address 1
stmatrix          | b8         | sync! aligned! m16n8! trans! shared shared::cta x1 x2 x4 | 2 | address 0
cp.async          |                               | ca! shared! global! {_AHEAD}        | 3 4 | address 0 1
cp.async          |                               | ca! shared::cta! global! {_AHEAD}   | 3 4 | address 0 1
cp.async          |                               | cg! shared! global! {_AHEAD}        | 3 4 | address 0 1
cp.async          |                               | cg! shared::cta! global! {_AHEAD}   | 3 4 | address 0 1
cp.async.bulk     |                         | shared::cluster! global! {_TELLS} multicast::cluster | 4 5 | address 0 1 3
cp.async.bulk     |                               | shared::cta! global! {_TELLS}       | 4 | address 0 1 3
cp.async.bulk     |                               | shared::cluster! shared::cta! {_TELLS} | 4 | address 0 1 3
cp.async.bulk     |                               | global! shared::cta! bulk_group!    | 3 | address 0 1
cp.reduce.async.bulk | u32 s32 u64 f32 f64        | add global! shared::cta! bulk_group! | 3 | address 0 1
cp.reduce.async.bulk | f16 bf16                   | add min max noftz global! shared::cta! bulk_group! | 3 | address 0 1
cp.reduce.async.bulk | u32 s32 u64 s64            | min max global! shared::cta! bulk_group! | 3 | address 0 1
cp.reduce.async.bulk | b32 b64                    | and or xor global! shared::cta! bulk_group! | 3 | address 0 1
cp.async.bulk.tensor | | {_RANKS} tile shared::cluster! global! {_TELLS} {_PAIR} | 3 4 | address 0 1 2
cp.async.bulk.tensor | | {_RANKS} tile shared::cta! global! {_TELLS} cta_group::1 | 3 | address 0 1 2
cp.async.bulk.tensor | | {_RANKS} tile global! shared::cta! bulk_group! | 2 | address 0 1
cp.async.bulk.tensor | | {_IMAGES} im2col! shared::cluster! global! {_TELLS} {_PAIR} | 4 5 | address 0 1 2
cp.async.bulk.tensor | | {_IMAGES} im2col! shared::cta! global! {_TELLS} cta_group::1 | 4 | address 0 1 2
cp.async.bulk.tensor | | {_IMAGES} im2col_no_offs! global! shared::cta! bulk_group! | 2 | address 0 1
cp.async.bulk.tensor | | 2d! tile::gather4! shared::cluster! global! {_TELLS} {_PAIR} | 3 4 | address 0 1 2
cp.async.bulk.tensor | | 2d! tile::gather4! shared::cta! global! {_TELLS} cta_group::1 | 3 | address 0 1 2
cp.async.bulk.tensor | | 2d! tile::scatter4! global! shared::cta! bulk_group! | 2 | address 0 1
cp.reduce.async.bulk.tensor | | {_REDUCES} {_RANKS} tile global! shared::cta! bulk_group! | 2 | address 0 1
cp.reduce.async.bulk.tensor | | {_REDUCES} {_IMAGES} im2col_no_offs! global! shared::cta! bulk_group! | 2 | address 0 1
cp.async.bulk.prefetch |                          | L2! global!                         | 2 | address 0
cp.async.bulk.prefetch.tensor |                   | {_RANKS} L2! global! tile           | 1 | address 0
cp.async.bulk.prefetch.tensor |                   | 2d! L2! global! tile::gather4!      | 1 | address 0
cp.async.bulk.prefetch.tensor |                   | {_IMAGES} L2! global! im2col! | 2 | address 0
cp.async.bulk.commit_group |                      |                                     | 0
cp.async.bulk.wait_group |                        | read                                | 1
cp.async.commit_group cp.async.wait_all |         |                                     | 0
cp.async.wait_group |                             |                                     | 1
tex               | f32 s32 u32 > f32 s32         | v4! 1d 2d 3d a1d a2d                | 2 | address 1
tex               | f32 s32 u32 > f32             | v4! level! 1d 2d 3d a1d a2d         | 3 | address 1
tex               | f32 s32 u32 > f32             | v4! grad! 1d 2d 3d a1d a2d          | 4 | address 1
tld4              | f32 s32 u32 > f32             | v4! r! 2d a2d                       | 2 | address 1
tld4              | f32 s32 u32 > f32             | v4! g! 2d a2d                       | 2 | address 1
tld4              | f32 s32 u32 > f32             | v4! b! 2d a2d                       | 2 | address 1
tld4              | f32 s32 u32 > f32             | v4! a! 2d a2d                       | 2 | address 1
suld              | b8 b16 b32 b64                | b! v2 v4 1d 2d 3d a1d a2d trap clamp zero | 2 | address 1
sust              | b8 b16 b32 b64                | b! v2 v4 1d 2d 3d a1d a2d trap clamp zero | 2 | address 0
activemask        | b32                           |                                     | 1
elect             |                               | sync!                               | 3
redux             | u32 s32                       | sync! add min max                   | 3
redux             | b32                           | sync! and or xor                    | 3
redux             | f32                           | sync! min max abs NaN               | 3
bar barrier       |                               | sync cta aligned                    | 1 2 | negated
bar barrier       |                               | arrive cta aligned                  | 2 | negated
bar barrier       | u32                           | red popc cta aligned                | 3 4 | negated
bar barrier       | pred                          | red and or cta aligned              | 3 4 | negated
bar               |                               | warp sync                           | 1 | negated
barrier.cluster.arrive |                          | release relaxed aligned             | 0
barrier.cluster.wait |                            | acquire aligned                     | 0
mapa              | u32 u64                       | shared::cluster                     | 3
getctarank        | u32 u64                       | shared::cluster                     | 2
mbarrier.init     | b64                           | {_IN_BLOCK}                         | 2 | address 0
mbarrier.inval    | b64                           | {_IN_BLOCK}                         | 1 | address 0
mbarrier.expect_tx mbarrier.complete_tx | b64     | {_ORDER}                            | 2 | address 0
mbarrier.arrive mbarrier.arrive_drop | b64        | noComplete {_ORDER}                 | 2 3 | address 1
mbarrier.arrive mbarrier.arrive_drop | b64        | expect_tx! {_ORDER}                 | 3 | address 1
mbarrier.test_wait | b64                          | parity {_ORDER}                     | 3 | address 1
mbarrier.try_wait | b64                           | parity {_ORDER}                     | 3 4 | address 1
mbarrier.pending_count | b64                      |                                     | 2
clusterlaunchcontrol.try_cancel | b128 | async! {_TELLS} shared::cta multicast::cluster::all | 2 | address 0 1
clusterlaunchcontrol.query_cancel | pred > b128   | is_canceled!                        | 2
clusterlaunchcontrol.query_cancel | b32 > b128    | get_first_ctaid! v4!                | 2 | vectors
clusterlaunchcontrol.query_cancel | b32 > b128    | {_FIRST_BLOCK}                      | 2
cp.async.mbarrier.arrive | b64                    | noinc {_IN_BLOCK}                   | 1 | address 0
membar            |                               | gl cta sys                          | 0
fence             |                               | sc acq_rel acquire release cta gpu sys cluster | 0
fence             |                               | proxy! async alias global shared::cta shared::cluster | 0
fence             |                               | mbarrier_init! release! cluster!    | 0
bra               |                               | uni                                 | 1 | label 0
brx               |                               | idx uni                             | 2 | label 1
ret               |                               | uni                                 | 0
exit trap brkpt   |                               |                                     | 0
call              |                               | vprintf __assertfail                | 0 1 2 3 4 5 6
nanosleep         | u32                           |                                     | 1
prefetch          |                               | global local L1 L2                  | 1 | address 0
prefetchu         |                               | L1                                  | 1 | address 0
prefetch.tensormap |                              | param const                         | 1 | address 0
pmevent           |                               | mask                                | 1
griddepcontrol    |                               | wait launch_dependents              | 0
"""

# What is refused by name, and why: opcodes, some with the modifier that is refused | what the user is told.
_REFUSED = """
wmma | Of wmma the shapes and types of CUDA's mma.h are executed.
mma.sp | Products of sparse matrices are executed of 4 to 32 bits, but not with factors of rows and columns.
ldmatrix.sync.aligned.m16n16 | Matrices of 16 x 16 bytes are not loaded: the PTX ISA's text leaves their registers open.
cvt.rs | It rounds stochastically; cvt.rn is executed.
tensormap | Tensor maps are not changed by kernels.
cp.async.bulk.tensor | Boxes are copied as tiles and by im2col, tile::gather4 and tile::scatter4, not by im2col::w.
st.async red.async | They are executed to shared memory of a cluster, with mbarrier::complete_tx::bytes.
tcgen05 | Not executed are shift, ld.red, sparse products (sp) and masks of columns of weight-stationary ones (ws).
tex.cube tex.acube tex.2dms txq sured suq istypep | Of textures and surfaces tex, tld4, suld.b and sust.b are executed.
multimem | Memory of several GPUs: not executed yet.
"""


def _rows(table: str) -> list[list[str]]:
    """Return the cells of a table of text; the names in the first column are separated by blanks."""
    return [[cell.strip() for cell in line.split("|")] for line in table.strip().splitlines()]


def _opcode(name: str, work: str, on_floats: str, words: str, one_of: str = "") -> Opcode:
    values = dict(word.split("=") for word in words.split() if "=" in word)
    return Opcode(
        name=name,
        work="move" if work == "-" else work,
        flops=int(on_floats) if on_floats.isdigit() else 0,
        is_special=on_floats == "special",
        access=MemoryAccess(values["access"]) if "access" in values else None,
        flow=Flow(values["flow"]) if "flow" in values else None,
        has_result=values.get("results") != "0",
        fewest_sources=int(values["sources"]) if "sources" in values else None,
        machine=values.get("machine", ""),
        pipe=values.get("pipe", ""),
        group=values.get("group", ""),
        traits=frozenset(Trait[word.upper()] for word in words.split() if "=" not in word),
        one_of=frozenset(one_of.split()),
    )


def _form(types: str, modifiers: str, operands: str, kinds: str = "") -> Form:
    kind, _, place = kinds.partition(" ")
    return Form(
        types=tuple(frozenset(part.split()) for part in types.split(">")) if types else (),
        modifiers=frozenset(modifiers.replace("!", "").split()),
        needed=frozenset(word.removesuffix("!") for word in modifiers.split() if word.endswith("!")),
        operands=frozenset(int(count) for count in operands.split()),
        addresses=frozenset(int(number) for number in place.split()) if kind == "address" else frozenset(),
        label=int(place) if kind == "label" else None,
        takes_vectors=kind == "vectors",
        takes_negated=kind == "negated",
    )


def _forms() -> dict[str, tuple[Form, ...]]:
    found: dict[str, tuple[Form, ...]] = {}
    for names, *cells in _rows(_FORMS):
        for name in names.split():
            found[name] = (*found.get(name, ()), _form(*cells))
    return found


#: What is known, by name; an opcode that is not listed is refused wherever it matters.
OPCODES = {name: _opcode(name, *cells) for names, *cells in _rows(_OPCODES) for name in names.split()}
_MOST_PARTS = max(name.count(".") for name in OPCODES)
#: The forms that are executed, by name of the opcode.
FORMS = _forms()
#: Opcode, or opcode and modifier: why it is refused.
WHY_REFUSED = {name: why for names, why in _rows(_REFUSED) for name in names.split()}
#: Modifiers by which a comparison combines its result with a predicate, which is one more source.
COMBINATIONS = frozenset({"and", "or", "xor"})


def opcode_of(name: str) -> Opcode:
    """Return what is known of an opcode, or of an instruction by its whole name: the longest opcode that begins it.

    >>> opcode_of("fma").flops, opcode_of("atom").access, opcode_of("newer").work
    (2, <MemoryAccess.ATOMIC: 'atomic'>, 'move')
    >>> opcode_of("fma.rn.f32").name
    'fma'
    """
    root, *parts = name.split(".")
    for count in range(min(len(parts), _MOST_PARTS), -1, -1):
        found = OPCODES.get(".".join((root, *parts[:count])))
        if found is not None:
            return found
    return Opcode(root)
