/* Programs that have CUDA's runtime linked into them: their functions of it are led to ours. Part of
 * libkerncast_device.so, which is loaded before the program begins.
 *
 * Such a program would look for NVIDIA's driver. As long as its symbols have not been stripped they say where its cuda*
 * functions are, and a jump at the beginning of each leads to the function of the same name in our libcudart.so. The
 * file of the program may hold anything: nothing of it is believed that does not lie within the file, and nothing is
 * written outside of code that the system has loaded. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__x86_64__)
#define OWN_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define OWN_MACHINE EM_AARCH64
#else
#define OWN_MACHINE EM_NONE
#endif

/* --- the file of the program --- */

struct file {
  const unsigned char *data;
  size_t bytes;
};

struct sections {
  const Elf64_Shdr *all;
  size_t count;
  const char *names;
  size_t name_bytes;
};

/* A part of the file, or NULL where it would not lie within it. */
static const void *part_of(const struct file *file, uint64_t offset, uint64_t bytes) {
  if (offset > file->bytes || bytes > file->bytes - offset) return NULL;
  return file->data + offset;
}

static const void *contents(const struct file *file, const Elf64_Shdr *section) {
  return section->sh_type == SHT_NOBITS ? NULL : part_of(file, section->sh_offset, section->sh_size);
}

/* A text of a table of texts, or an empty one where it would not end within it. */
static const char *text_at(const char *table, size_t bytes, size_t offset) {
  if (!table || offset >= bytes || !memchr(table + offset, 0, bytes - offset)) return "";
  return table + offset;
}

static bool open_file(struct file *file) {
  struct stat found;
  int number = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  if (number < 0) return false;
  void *data = MAP_FAILED;
  if (!fstat(number, &found) && found.st_size > 0)
    data = mmap(NULL, (size_t)found.st_size, PROT_READ, MAP_PRIVATE, number, 0);
  close(number);
  if (data == MAP_FAILED) return false;
  *file = (struct file){data, (size_t)found.st_size};
  return true;
}

static bool find_sections(const struct file *file, struct sections *sections) {
  const Elf64_Ehdr *head = part_of(file, 0, sizeof *head);
  if (!head || memcmp(head->e_ident, ELFMAG, SELFMAG) || head->e_ident[EI_CLASS] != ELFCLASS64) return false;
  if (head->e_ident[EI_DATA] != ELFDATA2LSB || head->e_machine != OWN_MACHINE) return false;
  if (!head->e_shnum || head->e_shentsize != sizeof(Elf64_Shdr) || head->e_shoff % 8) return false;
  sections->all = part_of(file, head->e_shoff, (uint64_t)head->e_shnum * sizeof(Elf64_Shdr));
  sections->count = head->e_shnum;
  if (!sections->all || head->e_shstrndx >= sections->count) return false;
  const Elf64_Shdr *names = sections->all + head->e_shstrndx;
  sections->names = contents(file, names);
  sections->name_bytes = names->sh_size;
  return true;
}

static const Elf64_Shdr *section_of_type(const struct sections *sections, uint32_t type) {
  for (size_t i = 0; i < sections->count; i++)
    if (sections->all[i].sh_type == type) return sections->all + i;
  return NULL;
}

static bool has_section(const struct sections *sections, const char *name) {
  for (size_t i = 0; i < sections->count; i++)
    if (!strcmp(text_at(sections->names, sections->name_bytes, sections->all[i].sh_name), name)) return true;
  return false;
}

/* --- symbols --- */

struct symbols {
  const Elf64_Sym *all;
  size_t count;
  const char *names;
  size_t name_bytes;
};

static struct symbols read_symbols(const struct file *file, const struct sections *sections, uint32_t type) {
  struct symbols none = {NULL, 0, NULL, 0};
  const Elf64_Shdr *table = section_of_type(sections, type);
  if (!table || table->sh_link >= sections->count || table->sh_offset % 8) return none;
  const Elf64_Shdr *names = sections->all + table->sh_link;
  struct symbols found = {contents(file, table), table->sh_size / sizeof(Elf64_Sym), contents(file, names),
                          names->sh_size};
  return found.all && found.names ? found : none;
}

static const char *name_of(const struct symbols *symbols, size_t i) {
  return text_at(symbols->names, symbols->name_bytes, symbols->all[i].st_name);
}

static bool is_of_runtime(const char *name) { return !strncmp(name, "cuda", 4) || !strncmp(name, "__cuda", 6); }

static const Elf64_Sym *find_symbol(const struct symbols *symbols, const char *wanted) {
  for (size_t i = 0; i < symbols->count; i++)
    if (!strcmp(name_of(symbols, i), wanted)) return symbols->all + i;
  return NULL;
}

static bool is_own_function(const Elf64_Sym *symbol) {
  return symbol && ELF64_ST_TYPE(symbol->st_info) == STT_FUNC && symbol->st_shndx != SHN_UNDEF && symbol->st_value;
}

/* Every program with kernels registers them. */
static const char registration[] = "__cudaRegisterFatBinary";

/* The runtime is mostly linked in as a whole, and each version of CUDA has functions that others have not: CUDA 12
 * alone this one, 13 no textures by reference, and 10 no caches to set aside. */
static const char *library_for(const struct symbols *symbols) {
  if (find_symbol(symbols, "cudaGetDeviceProperties_v2")) return "libcudart.so.12";
  if (!find_symbol(symbols, "cudaThreadExit") && !find_symbol(symbols, "__cudaRegisterTexture"))
    return "libcudart.so.13";
  return find_symbol(symbols, "cudaCtxResetPersistingL2Cache") ? "libcudart.so.11.0" : NULL;
}

/* --- jumps --- */

#if defined(__x86_64__)
enum { JUMP_BYTES = 14 };
/* jmp *0(%rip), and the address: no register changes. */
static const unsigned char jump_code[] = {0xff, 0x25, 0, 0, 0, 0};
#else
enum { JUMP_BYTES = 16 };
/* ldr x16, 8; br x16, and the address: x16 is free between functions. */
static const unsigned char jump_code[] = {0x50, 0x00, 0x00, 0x58, 0x00, 0x02, 0x1f, 0xd6};
#endif

struct program {
  uintptr_t base;
  const ElfW(Phdr) *parts;
  size_t count;
};

static int first_program(struct dl_phdr_info *info, size_t bytes, void *found) {
  (void)bytes;
  *(struct program *)found = (struct program){info->dlpi_addr, info->dlpi_phdr, info->dlpi_phnum};
  return 1; /* the program itself comes first */
}

/* Whether there is code at a place, as far as the system has loaded it. */
static bool is_code(const struct program *program, uint64_t value) {
  for (size_t i = 0; i < program->count; i++) {
    const ElfW(Phdr) *part = program->parts + i;
    if (part->p_type != PT_LOAD || !(part->p_flags & PF_X) || value < part->p_vaddr) continue;
    if (value - part->p_vaddr < part->p_filesz && part->p_filesz - (value - part->p_vaddr) >= JUMP_BYTES) return true;
  }
  return false;
}

static bool write_jump(uintptr_t place, uintptr_t target) {
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), first = place / page * page;
  size_t bytes = (place + JUMP_BYTES - first + page - 1) / page * page;
  unsigned char code[JUMP_BYTES];
  memcpy(code, jump_code, sizeof jump_code);
  memcpy(code + sizeof jump_code, &target, sizeof target);
  if (mprotect((void *)first, bytes, PROT_READ | PROT_WRITE)) return false;
  memcpy((void *)place, code, sizeof code);
  if (mprotect((void *)first, bytes, PROT_READ | PROT_EXEC)) abort(); /* the program could not go on */
  __builtin___clear_cache((char *)place, (char *)place + JUMP_BYTES);
  return true;
}

/* Our runtime lies beside this library. */
static void *open_runtime(const char *name) {
  Dl_info own;
  char path[PATH_MAX];
  if (!dladdr((const void *)registration, &own) || !own.dli_fname) return NULL;
  const char *slash = strrchr(own.dli_fname, '/');
  int length = slash ? (int)(slash - own.dli_fname + 1) : 0;
  if (snprintf(path, sizeof path, "%.*s%s", length, own.dli_fname, name) >= (int)sizeof path) return NULL;
  return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

/* Functions that are too short for a jump only pass on to others: none of CUDA's interface is. */
static size_t lead_away(const struct symbols *symbols, void *runtime) {
  struct program program = {0, NULL, 0};
  size_t count = 0;
  dl_iterate_phdr(first_program, &program);
  for (size_t i = 0; i < symbols->count; i++) {
    const Elf64_Sym *symbol = symbols->all + i;
    const char *name = name_of(symbols, i);
    if (!is_own_function(symbol) || !is_of_runtime(name) || symbol->st_size < JUMP_BYTES) continue;
    void *target = dlsym(runtime, name);
    if (!target || !is_code(&program, symbol->st_value)) continue;
    count += write_jump(program.base + symbol->st_value, (uintptr_t)target);
  }
  return count;
}

/* --- what kind of program this is --- */

static bool uses_library(const struct symbols *dynamic) {
  for (size_t i = 0; i < dynamic->count; i++)
    if (dynamic->all[i].st_shndx == SHN_UNDEF && is_of_runtime(name_of(dynamic, i))) return true;
  return false;
}

static void tell(const char *what) {
  char path[PATH_MAX];
  ssize_t bytes = readlink("/proc/self/exe", path, sizeof path - 1);
  path[bytes > 0 ? bytes : 0] = 0;
  fprintf(stderr, "kerncast: %s cannot run on the virtual GPU: %s\n", path, what);
}

static void take_over(const struct file *file) {
  struct sections sections;
  if (!find_sections(file, &sections)) return;
  struct symbols dynamic = read_symbols(file, &sections, SHT_DYNSYM);
  if (uses_library(&dynamic)) return;
  struct symbols symbols = read_symbols(file, &sections, SHT_SYMTAB);
  if (!is_own_function(find_symbol(&symbols, registration))) {
    /* With the driver alone a program may hold code of the device, but no runtime. */
    if (!symbols.count && has_section(&sections, ".nv_fatbin"))
      tell("CUDA's runtime is linked into it and its symbols are stripped (link with -cudart shared, or do not strip)");
    return;
  }
  const char *library = library_for(&symbols);
  if (!library) {
    tell("CUDA's runtime is linked into it, and is older than that of CUDA 11");
    return;
  }
  void *runtime = open_runtime(library);
  if (!runtime) {
    tell(dlerror());
    return;
  }
  if (!lead_away(&symbols, runtime)) tell("its code cannot be changed");
}

__attribute__((constructor)) static void begin(void) {
  struct file file;
  if (OWN_MACHINE == EM_NONE || !getenv("KERNCAST_SERVER") || !open_file(&file)) return;
  take_over(&file);
  munmap((void *)file.data, file.bytes);
}
