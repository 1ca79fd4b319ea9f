"""The compiler of kernels: from functions to machine code, by numba. Imported only where there is no code yet.

The code is an object file that refers to nothing but the C library. Its function takes numbers as they are, and arrays
as addresses of their Python objects, whose data and shape it reads as NumPy's C interface lays them out.
"""

import re
from functools import cache
from types import FunctionType, ModuleType
from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.compiler_lock import global_compiler_lock
from numba.np import arrayobj

from degroot.compute.kernel import OUT_OF_ORDER, Intrinsic, Kernel, find_globals
from degroot.compute.store import CodeFile

NUMBERS = {"f8": types.float64, "f4": types.float32, "i8": types.int64, "i4": types.int32, "u8": types.uint64,
           "u1": types.uint8, "i1": types.int8, "b1": types.boolean, "u4": types.uint32}  # fmt: skip
FAILED = 2  # the kernel raised: there was no room

HEAD = object.__basicsize__  # bytes of a Python object before its own fields
DATA, SHAPE, FLAGS = HEAD, HEAD + 16, HEAD + 48  # of an array: void *data; int nd; npy_intp *dimensions; ...
CONTIGUOUS_AND_ALIGNED = 0x0101

# what machine code may refer to: the C library, in every process
PROVIDED = {
    "malloc", "free", "memcpy", "memmove", "memset", "ceil", "exp", "floor", "fma", "fmod", "log", "pow", "sqrt",
    "expf", "logf", "powf", "sqrtf",
}  # fmt: skip

word, byte = ir.IntType(64), ir.IntType(8)
address = byte.as_pointer()


def compile_kernel(kernel: Kernel, signature: str, name: str) -> CodeFile:
    """A kernel's machine code for arguments of the types in `signature`, see `describe_types`; `name`: of its file."""
    arguments = parse_signature(signature, kernel)
    with global_compiler_lock:
        dispatcher = make_dispatcher(kernel)
        dispatcher.compile(arguments)
        compilation = dispatcher.overloads[arguments]
        result = _name_result(compilation.signature.return_type, kernel)
        codegen = compilation.target_context.codegen()
        symbol = re.sub(r"\W", "_", name)
        library = codegen.create_library(symbol)
        module = library.create_ir_module(symbol)
        letters = _define_entry(module, symbol, compilation, arguments)
        _define_allocation(module)
        _define_reshape(module)
        library.add_ir_module(module)
        library.add_linking_library(compilation.library)
        library.finalize()
        _close(library._final_module, symbol, kernel)
        code = codegen._tm.emit_object(library._final_module)
    return CodeFile(symbol, letters, result, code)


def _close(module: Any, symbol: str, kernel: Kernel) -> None:
    """Hide all functions but one, since many kernels are linked into one process; refuse what is not `PROVIDED`."""
    for function in module.functions:
        if not function.is_declaration:
            if function.name != symbol:
                function.linkage = "internal"
        elif not function.name.startswith("llvm.") and function.name not in PROVIDED:
            raise TypeError(f"Kernels may use the C library alone; {kernel.name} needs {function.name}.")


@cache
def make_dispatcher(kernel: Kernel) -> Any:
    """numba's form of a kernel, whose calls of kernels and intrinsics are of numba's forms of these."""
    function: Any = kernel.function
    namespace = dict(function.__globals__)
    namespace |= {name: _make_numba_form(value) for name, value in find_globals(function).items()}
    copy = FunctionType(function.__code__, namespace, function.__name__, function.__defaults__, function.__closure__)
    copy.__module__, copy.__qualname__ = function.__module__, function.__qualname__
    return numba.njit(nogil=True, error_model="numpy", forceinline=kernel.inline, no_cpython_wrapper=True,
                      no_cfunc_wrapper=True)(copy)  # fmt: skip


def _make_numba_form(value: Any) -> Any:
    """What numba takes in the place of a kernel, an intrinsic, or a module of such; all else as it is."""
    if isinstance(value, Kernel):
        return make_dispatcher(value)
    if isinstance(value, Intrinsic):
        return make_intrinsic(value)
    if isinstance(value, ModuleType) and value.__name__.startswith("degroot."):
        return make_module(value)
    return value


@cache
def make_intrinsic(value: Intrinsic) -> Any:
    """numba's form of an intrinsic."""
    return numba.extending.intrinsic(value.function)


@cache
def make_module(module: ModuleType) -> ModuleType:
    """A module whose kernels and intrinsics are numba's forms of these."""
    copy = ModuleType(module.__name__)
    parts = {name: value for name, value in vars(module).items() if isinstance(value, Kernel | Intrinsic)}
    vars(copy).update(vars(module) | {name: _make_numba_form(value) for name, value in parts.items()})
    return copy


def parse_signature(signature: str, kernel: Kernel) -> tuple[Any, ...]:
    """numba's types of what `describe_types` wrote; named tuples are found in the kernel's module."""
    tokens = re.findall(r"\w+\(|\)|\w+(?:\[\d\])?", signature)
    stack: list[tuple[str, list[Any]]] = [("", [])]
    for token in tokens:
        if token.endswith("("):
            stack.append((token[:-1], []))
        elif token == ")":
            name, fields = stack.pop()
            stack[-1][1].append(types.NamedTuple(fields, _find_class(name, kernel)))
        elif token.endswith("]"):
            code, dimensions = token[:-1].split("[")
            stack[-1][1].append(types.Array(NUMBERS[code], int(dimensions), "C"))
        else:
            stack[-1][1].append(NUMBERS[token])
    return tuple(stack[0][1])


def _find_class(name: str, kernel: Kernel) -> Any:
    """The class of a named tuple that a kernel takes: an annotation of it, or of one that it takes."""
    waiting = [hint for hint in kernel.function.__annotations__.values() if isinstance(hint, type)]
    while waiting:
        hint = waiting.pop()
        if hint.__name__ == name:
            return hint
        waiting += [each for each in getattr(hint, "__annotations__", {}).values() if isinstance(each, type)]
    raise TypeError(f"{kernel.name} must be annotated with the named tuples that it takes; {name} is none of them.")


def _name_result(result: Any, kernel: Kernel) -> str:
    if result == types.none:
        return "none"
    if result == types.boolean:
        return "b1"
    if isinstance(result, types.Integer) and result.bitwidth == 64:
        return "i8"
    if result == types.float64:
        return "f8"
    raise TypeError(f"Kernels that Python calls return a number or nothing; {kernel.name} returns {result}.")


def _define_entry(module: Any, symbol: str, compilation: Any, arguments: tuple[Any, ...]) -> str:
    """Code for the function that ctypes calls; gives the letters of its arguments, see `CodeFile`."""
    context, result = compilation.target_context, compilation.signature.return_type
    flat = [leaf for kind in arguments for leaf in _leaves(kind)]
    letters = "".join("f" if kind == types.float64 else "i" for kind in flat)
    parameters = [ir.DoubleType() if letter == "f" else word for letter in letters]
    returns = [] if result == types.none else [word]
    entry = ir.Function(module, ir.FunctionType(word, [*parameters, *returns]), symbol)
    builder = ir.IRBuilder(entry.append_basic_block())
    callee = context.declare_function(module, compilation.fndesc)
    places = iter(entry.args)
    values = [_take(context, builder, kind, places) for kind in arguments]
    status, value = context.call_conv.call_function(builder, callee, result, arguments, values)
    with builder.if_then(status.is_error, likely=False):
        builder.ret(word(FAILED))
    if returns:
        kind = ir.DoubleType() if result == types.float64 else byte if result == types.boolean else word
        value = builder.zext(value, byte) if result == types.boolean else value
        builder.store(value, builder.inttoptr(entry.args[-1], kind.as_pointer()))
    builder.ret(word(0))
    return letters


def _leaves(kind: Any) -> list[Any]:
    return [leaf for each in kind.types for leaf in _leaves(each)] if isinstance(kind, types.BaseTuple) else [kind]


def _take(context: Any, builder: Any, kind: Any, places: Any) -> Any:
    """The value of an argument of a type, from as many of the function's own arguments as it takes."""
    if isinstance(kind, types.BaseTuple):
        return context.make_tuple(builder, kind, [_take(context, builder, each, places) for each in kind.types])
    given = next(places)
    if isinstance(kind, types.Array):
        return _take_array(context, builder, kind, given)
    if kind == types.boolean:
        return builder.trunc(given, ir.IntType(1))
    return given


def _take_array(context: Any, builder: Any, kind: Any, place: Any) -> Any:
    """The array whose Python object is at `place`."""

    def field(offset: int, llvm_type: Any) -> Any:
        return builder.load(builder.inttoptr(builder.add(place, word(offset)), llvm_type.as_pointer()))

    flags = builder.and_(field(FLAGS, ir.IntType(32)), ir.IntType(32)(CONTIGUOUS_AND_ALIGNED))
    with builder.if_then(builder.icmp_unsigned("!=", flags, flags.type(CONTIGUOUS_AND_ALIGNED)), likely=False):
        builder.ret(word(OUT_OF_ORDER))
    lengths = field(SHAPE, word.as_pointer())
    shape = [builder.load(builder.gep(lengths, [word(axis)])) for axis in range(kind.ndim)]
    item = context.get_abi_sizeof(context.get_data_type(kind.dtype))
    strides: list[Any] = []
    step = word(item)
    for length in reversed(shape):
        strides.insert(0, step)
        step = builder.mul(step, length)
    array = context.make_array(kind)(context, builder)
    data = builder.bitcast(field(DATA, address), array.data.type)
    arrayobj.populate_array(array, data, shape, strides, item, meminfo=None)
    return array._getvalue()


def _define_allocation(module: Any) -> None:
    """Code for the arrays that kernels make for themselves: what numba's runtime does, by malloc and free."""
    size_of_head = 64  # of numba's MemInfo: a count, a destructor and its argument, the data and their size
    malloc = ir.Function(module, ir.FunctionType(address, [word]), "malloc")
    free = ir.Function(module, ir.FunctionType(ir.VoidType(), [address]), "free")

    make = ir.Function(module, ir.FunctionType(address, [word, ir.IntType(32)]), "NRT_MemInfo_alloc_aligned")
    builder = ir.IRBuilder(make.append_basic_block())
    size, align = make.args[0], builder.zext(make.args[1], word)
    head = builder.call(malloc, [builder.add(builder.add(size, align), word(size_of_head))])
    with builder.if_then(cgutils.is_null(builder, head), likely=False):
        builder.ret(head)
    start = builder.add(builder.ptrtoint(head, word), word(size_of_head - 1))
    data = builder.add(start, align)
    data = builder.sub(data, builder.urem(data, align))
    fields = builder.bitcast(head, word.as_pointer())
    for place, value in enumerate([word(1), word(0), word(0), data, size, word(0)]):
        builder.store(value, builder.gep(fields, [word(place)]))
    builder.ret(head)

    plain = ir.Function(module, ir.FunctionType(address, [word]), "NRT_MemInfo_alloc")
    builder = ir.IRBuilder(plain.append_basic_block())
    builder.ret(builder.call(make, [plain.args[0], ir.IntType(32)(16)]))

    for name in ("NRT_MemInfo_call_dtor", "NRT_Free"):
        end = ir.Function(module, ir.FunctionType(ir.VoidType(), [address]), name)
        builder = ir.IRBuilder(end.append_basic_block())
        builder.call(free, [end.args[0]])
        builder.ret_void()

    allocate = ir.Function(module, ir.FunctionType(address, [word]), "NRT_Allocate")
    builder = ir.IRBuilder(allocate.append_basic_block())
    builder.ret(builder.call(malloc, [allocate.args[0]]))


def _define_reshape(module: Any) -> None:
    """Code for ``array.reshape``: the strides of another shape. All arrays of kernels are C-contiguous."""
    numbers = word.as_pointer()
    parameters = [word, numbers, numbers, word, numbers, numbers, word, ir.IntType(32)]
    find = ir.Function(module, ir.FunctionType(ir.IntType(32), parameters), "numba_attempt_nocopy_reshape")
    _, _, _, dimensions, shape, strides, item, _ = find.args
    builder = ir.IRBuilder(find.append_basic_block())
    step = cgutils.alloca_once_value(builder, item)
    with cgutils.for_range_slice(builder, builder.sub(dimensions, word(1)), word(-1), word(-1), inc=False) as (axis, _):
        current = builder.load(step)
        builder.store(current, builder.gep(strides, [axis]))
        builder.store(builder.mul(current, builder.load(builder.gep(shape, [axis]))), step)
    builder.ret(ir.IntType(32)(1))
