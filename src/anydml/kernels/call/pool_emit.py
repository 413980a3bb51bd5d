"""The machine code with which threads share the pieces of a call: the caller's side and the workers' side.

They share one block of memory, the state. A thread claims a piece of a phase by counting down a ticket. The ticket holds the
number of remaining pieces and, in its upper bits, the number of the phase, so that no value of it recurs: a worker that is
delayed between reading a ticket and claiming a piece with it cannot claim a piece of a later phase. The other data of a phase
are written only while the ticket has no pieces left, so if a claim succeeds, the data read with the ticket belong to it.
"""

from __future__ import annotations

from anydml.kernels.code.emit import Text, module
from anydml.kernels.code.targets import Target

LINE = 128  # bytes: a cache line and its neighbour, which is fetched with it, to avoid false sharing
# the state: what a claim needs, in one line, written by the caller, and the number of its processor plus 1, or 0
TICKET, END, HELPERS, RUNNER, CALLER = 0, 8, 16, 24, 32
DONE, STATUS = LINE, LINE + 8  # pieces that workers have done, and a status that is not 0
OWNER = 2 * LINE  # 1 while a caller has a phase in this state; other callers then compute their pieces alone
STAYING = 3 * LINE  # calls that have further phases to share, for which workers wait longer
STATE_BYTES = 4 * LINE

LOOKS = 64  # a worker yields after this many checks for work, which take a few microseconds

LEFT_BITS = 24
LEFT = (1 << LEFT_BITS) - 1

JOB_WORDS, PHASE_WORDS = 9, 3
FIRST, PAST, STOPPED = 6, 7, 8  # words of a job: the phases to run, and the last one that was run
TOGETHER = 1  # the status of a worker that found itself on its caller's processor


def pooled(target: Target) -> bool:
    """Whether threads share work. On other architectures, an atomic operation might call a function that does not exist."""
    return target.architecture in ("x86", "aarch64")


def call(target: Target) -> str:
    """`i64 kernel(ptr job)`: all phases; a status that is not 0 ends the call after its phase.

    job: int64 (state, address of a function that gives way or 0, spins before it is called, address of a function that
    returns the number of the processor or 0, workers that may help, runner, first phase, end of the phases, where the last
    phase that was run is written), then for each phase (end of its pieces, how many, whether a later phase is to be shared).
    There is a phase to run.
    """
    text, shared = Text(), pooled(target)
    kinds = ("ptr", "ptr", "i64", "ptr", "i64", "ptr", "i64", "i64")
    state, way, patience, where, helpers, runner, first, count = _block(text, *kinds)
    text.jump("phase")

    text.label("phase")
    text.do(f"%i = phi i64 [ {first}, %entry ], [ %next, %over ]")
    text.do("%stay = phi i64 [ 0, %entry ], [ %later, %over ]")
    row = text.at(text.at("%block", text.op(f"mul i64 %i, {8 * PHASE_WORDS}")), 8 * JOB_WORDS)
    end, number = text.load("ptr", row), text.load("i64", row, 8)
    text.do(f"%later = load i64, ptr {text.at(row, 16)}, align 1")
    change = text.op("sub i64 %later, %stay")
    text.branch(text.op(f"icmp eq i64 {change}, 0"), "pieces", "turn")
    text.label("turn")
    if shared:
        text.op(f"atomicrmw add ptr {text.at(state, STAYING)}, i64 {change} seq_cst")
    text.jump("pieces")

    # while another caller has the state, the pieces are computed here; before each one the state is tried again
    text.label("pieces")
    text.do(f"%left = phi i64 [ {number}, %phase ], [ {number}, %turn ], [ %fewer, %alone ]")
    text.do("%bad = phi i64 [ 0, %phase ], [ 0, %turn ], [ %worse, %alone ]")
    text.branch(text.op("icmp eq i64 %left, 0"), "over", "some")
    text.label("some")
    nobody = text.op(f"or i1 {text.op('icmp eq i64 %left, 1')}, {text.op(f'icmp eq i64 {helpers}, 0')}")
    text.branch(nobody, "alone", "try" if shared else "alone")
    if shared:
        text.label("try")
        taken = text.op(f"cmpxchg ptr {text.at(state, OWNER)}, i64 0, i64 1 seq_cst seq_cst")
        text.branch(text.op(f"extractvalue {{i64, i1}} {taken}, 1"), "publish", "alone")
    text.label("alone")
    status = _run(text, runner, end, "%left")
    text.do(f"%worse = select i1 {text.op('icmp eq i64 %bad, 0')}, i64 {status}, i64 %bad")
    text.do("%fewer = sub i64 %left, 1")
    text.jump("pieces")
    if shared:
        _share(text, target, state, (end, helpers, runner), (way, patience, where))

    text.label("over")
    text.do("%result = phi i64 [ %bad, %pieces ]" + (", [ %found, %finish ]" if shared else ""))
    text.do("%next = add i64 %i, 1")
    more, good = text.op(f"icmp ult i64 %next, {count}"), text.op("icmp eq i64 %result, 0")
    text.branch(text.op(f"and i1 {more}, {good}"), "phase", "leave")
    text.label("leave")
    text.store("i64", "%i", text.at("%block", 8 * STOPPED))
    if shared:
        text.branch(text.op("icmp eq i64 %later, 0"), "return", "unstay")
        text.label("unstay")
        text.op(f"atomicrmw sub ptr {text.at(state, STAYING)}, i64 %later seq_cst")
        text.jump("return")
        text.label("return")
    text.do("ret i64 %result")
    return _function(text, target)


def _share(text: Text, target: Target, state: str, phase: tuple[str, str, str], system: tuple[str, str, str]) -> None:
    """The owner's part of a call: publish %left pieces, claim some, and wait for what the workers have claimed."""
    (end, helpers, runner), (way, patience, where) = phase, system
    text.label("publish")
    caller = _processor(text, where, "publish", "known")
    for kind, value, offset in (("ptr", end, END), ("i64", helpers, HELPERS), ("ptr", runner, RUNNER), ("i64", caller, CALLER)):
        text.do(f"store atomic {kind} {value}, ptr {text.at(state, offset)} monotonic, align 8")
    for value, offset in (("0", DONE), ("%bad", STATUS)):
        text.do(f"store atomic i64 {value}, ptr {text.at(state, offset)} monotonic, align 8")
    last = text.op(f"or i64 {text.op(f'load atomic i64, ptr {state} monotonic, align 8')}, {LEFT}")
    first = text.op(f"add i64 {text.op(f'add i64 {last}, 1')}, %left")
    text.do(f"store atomic i64 {first}, ptr {state} release, align 8")
    text.jump("take")

    text.label("take")
    text.do("%own = phi i64 [ 0, %known ], [ %own, %claim ], [ %owner, %mine ], [ %owner, %note ]")
    ticket = text.op(f"load atomic i64, ptr {state} acquire, align 8")
    remaining = text.op(f"and i64 {ticket}, {LEFT}")
    text.branch(text.op(f"icmp eq i64 {remaining}, 0"), "wait", "claim")
    text.label("claim")
    _claim(text, state, ticket, "mine", "take")
    text.label("mine")
    text.do("%owner = add i64 %own, 1")
    _note(text, state, _run(text, runner, end, remaining), "note", "take")

    text.label("wait")
    text.do("%spun = phi i64 [ 0, %take ], [ %more, %again ], [ %more, %yield ], [ %more, %resume ]")
    done = text.op(f"load atomic i64, ptr {text.at(state, DONE)} acquire, align 8")
    every = text.op(f"icmp eq i64 {done}, {text.op('sub i64 %left, %own')}")
    text.branch(every, "finish", "again")
    text.label("again")
    _pause(text, target)
    text.do("%more = add i64 %spun, 1")
    # the thread with the last piece may be waiting for this processor
    text.branch(text.op(f"icmp ult i64 %spun, {patience}"), "wait", "yield")
    text.label("yield")
    _give_way(text, way, "wait")
    text.label("finish")
    text.do(f"%found = load atomic i64, ptr {text.at(state, STATUS)} monotonic, align 8")
    text.do(f"store atomic i64 0, ptr {text.at(state, OWNER)} release, align 8")
    text.jump("over")


def serve(target: Target) -> str:
    """`i64 kernel(ptr block)`: compute pieces of calls until none was found for `spins` spins (0), or until the worker finds
    itself on its caller's processor (TOGETHER).

    block: int64 (state, address of a function that gives way or 0, address of a function that returns the number of the
    processor or 0, the number of this worker, spins).
    """
    text = Text()
    state, way, where, index, spins = _block(text, "ptr", "ptr", "ptr", "i64", "i64")
    text.jump("look")
    text.label("look")
    again = f"[ {spins}, %entry ], [ {spins}, %claim ], [ {spins}, %worked ]"
    text.do(f"%left = phi i64 {again}, [ %fewer, %rest ], [ %kept, %apart ], [ %kept, %resume ]")
    ways = ", ".join(f"[ %ticket, %{label} ]" for label in ("claim", "worked", "rest", "apart", "resume"))
    text.do(f"%seen = phi i64 [ 0, %entry ], {ways}")
    text.do(f"%ticket = load atomic i64, ptr {state} acquire, align 8")
    remaining = text.op(f"and i64 %ticket, {LEFT}")
    helpers = text.op(f"load atomic i64, ptr {text.at(state, HELPERS)} monotonic, align 8")
    wanted = text.op(f"icmp ult i64 {index}, {helpers}")
    some = text.op(f"icmp ne i64 {remaining}, 0")
    text.branch(text.op(f"and i1 {wanted}, {some}"), "claim", "idle")

    text.label("claim")
    end = text.op(f"load atomic ptr, ptr {text.at(state, END)} monotonic, align 8")
    runner = text.op(f"load atomic ptr, ptr {text.at(state, RUNNER)} monotonic, align 8")
    _claim(text, state, "%ticket", "work", "look")
    text.label("work")
    _note(text, state, _run(text, runner, end, remaining), "note", "worked")
    text.label("worked")
    text.op(f"atomicrmw add ptr {text.at(state, DONE)}, i64 1 seq_cst")  # from here on the call may end
    text.jump("look")

    text.label("idle")
    _pause(text, target)
    busy = text.op(f"and i1 {wanted}, {text.op('icmp ne i64 %ticket, %seen')}")
    text.do(f"%fewer = select i1 {busy}, i64 {spins}, i64 {text.op('sub i64 %left, 1')}")
    over = text.op("icmp eq i64 %fewer, 0")
    text.do(f"%kept = select i1 {over}, i64 1, i64 %fewer")
    text.branch(over, "tired", "rest")
    # a worker that was woken on its caller's processor would otherwise keep the caller from working
    text.label("rest")
    text.branch(text.op(f"icmp eq i64 {text.op(f'and i64 %fewer, {LOOKS - 1}')}, 0"), "linger", "look")
    text.label("tired")
    staying = text.op(f"icmp ne i64 {text.op(f'load atomic i64, ptr {text.at(state, STAYING)} acquire, align 8')}, 0")
    text.branch(text.op(f"and i1 {wanted}, {staying}"), "linger", "sleep")
    text.label("linger")
    here = _processor(text, where, "linger", "found")
    caller = text.op(f"load atomic i64, ptr {text.at(state, CALLER)} monotonic, align 8")
    same = text.op(f"and i1 {wanted}, {text.op(f'icmp eq i64 {here}, {caller}')}")
    text.branch(text.op(f"and i1 {same}, {text.op(f'icmp ne i64 {here}, 0')}"), "move", "apart")
    text.label("apart")
    _give_way(text, way, "look")
    text.label("move")
    text.do(f"ret i64 {TOGETHER}")
    text.label("sleep")
    text.do("ret i64 0")
    return _function(text, target)


def _block(text: Text, *kinds: str) -> list[str]:
    return [text.load(kind, "%block", 8 * i) for i, kind in enumerate(kinds)]


def _run(text: Text, runner: str, end: str, left: str) -> str:
    """The status of the piece at which `left` pieces remain, itself included."""
    piece = text.at(end, text.op(f"mul i64 {left}, -16"))
    steps, length = text.load("ptr", piece), text.load("i64", piece, 8)
    return text.op(f"call i64 {runner}(ptr {steps}, i64 {length})")


def _claim(text: Text, state: str, ticket: str, won: str, lost: str) -> None:
    pair = text.op(f"cmpxchg ptr {state}, i64 {ticket}, i64 {text.op(f'sub i64 {ticket}, 1')} acq_rel acquire")
    text.branch(text.op(f"extractvalue {{i64, i1}} {pair}, 1"), won, lost)


def _note(text: Text, state: str, status: str, label: str, then: str) -> None:
    """Keep the status, if it is the first that is not 0."""
    text.branch(text.op(f"icmp eq i64 {status}, 0"), then, label)
    text.label(label)
    text.op(f"cmpxchg ptr {text.at(state, STATUS)}, i64 0, i64 {status} acq_rel acquire")
    text.jump(then)


def _give_way(text: Text, way: str, then: str) -> None:
    """Yield the processor to another thread. The function is called by address: an undefined symbol would crash."""
    text.branch(text.op(f"icmp eq ptr {way}, null"), then, "resume")
    text.label("resume")
    text.op(f"call i32 {way}()")
    text.jump(then)


def _processor(text: Text, where: str, before: str, after: str) -> str:
    """The number of the processor plus 1, or 0, if it is unknown. before: the present label; after: the one that follows."""
    text.branch(text.op(f"icmp eq ptr {where}, null"), after, f"ask.{after}")
    text.label(f"ask.{after}")
    number = text.op(f"add i32 {text.op(f'call i32 {where}()')}, 1")
    wide = text.op(f"zext i32 {number} to i64")
    text.jump(after)
    text.label(after)
    return text.op(f"phi i64 [ 0, %{before} ], [ {wide}, %ask.{after} ]")


def _pause(text: Text, target: Target) -> None:
    text.do("call void @llvm.x86.sse2.pause()" if target.architecture == "x86" else "call void @llvm.aarch64.hint(i32 1)")


def _function(text: Text, target: Target) -> str:
    declarations = {"x86": ["declare void @llvm.x86.sse2.pause()"], "aarch64": ["declare void @llvm.aarch64.hint(i32)"]}
    head = ["define i64 @kernel(ptr %block) {", "entry:"]
    return module([*declarations.get(target.architecture, []), *head, *text.lines, "}"])
