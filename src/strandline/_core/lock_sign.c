/* Whether a lock file was not replaced, and still has the signature of this process.
 *
 * SQLite calls this within a statement, see design 0020. No Python bytecode runs, so no interrupt
 * can arrive there, where SQLite would swallow it.
 */
#include "core.h"
#include <sys/stat.h>
#include <unistd.h>

enum { SIGNATURE_BYTES = 16 };

/* The arguments, which Python packs once, so that a call need not parse them. */
typedef struct {
    int64_t fd;
    uint64_t device, inode;
    int64_t at;
    char signature[SIGNATURE_BYTES];
    char path[]; /* Ends with a zero. */
} Sign;

/* `is_signed(sign)`; see core.pyi.
 *
 * It keeps the interpreter's lock: both system calls are served from memory, and cost less than
 * releasing the lock does when other threads run.
 */
PyObject *is_signed(PyObject *module, PyObject *packed) {
    (void)module;
    const Sign *sign = (const Sign *)PyBytes_AsString(packed);
    if (!sign) return NULL;
    if (PyBytes_Size(packed) <= (Py_ssize_t)sizeof *sign) {
        PyErr_SetString(PyExc_ValueError, "this is too short for a signature and a path");
        return NULL;
    }
    struct stat found;
    char stored[SIGNATURE_BYTES];
    bool is_ours = lstat(sign->path, &found) == 0 && (uint64_t)found.st_dev == sign->device
        && (uint64_t)found.st_ino == sign->inode
        && pread((int)sign->fd, stored, SIGNATURE_BYTES, (off_t)sign->at) == SIGNATURE_BYTES
        && !memcmp(stored, sign->signature, SIGNATURE_BYTES);
    return PyBool_FromLong(is_ours);
}
