#include "gen/lld_shim.h"

#include <cstring>
#include <mutex>

#include "lld/Common/Driver.h"
#include "llvm/Support/raw_ostream.h"

LLD_HAS_DRIVER(elf)

extern "C" int mxgen_lld_link(const char *const *argv, int argc, char *log, size_t log_bytes)
{
    static std::mutex one_at_a_time;
    std::lock_guard<std::mutex> guard(one_at_a_time);
    std::string text;
    llvm::raw_string_ostream stream(text);
    llvm::ArrayRef<const char *> args(argv, static_cast<size_t>(argc));
    lld::Result result = lld::lldMain(args, stream, stream, {{lld::Gnu, &lld::elf::link}});
    if (log_bytes) {
        std::strncpy(log, text.c_str(), log_bytes - 1);
        log[log_bytes - 1] = 0;
    }
    return result.retCode;
}
