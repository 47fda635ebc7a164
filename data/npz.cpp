#include "ferrite/data/host.h"
#include "ferrite/data/npy.h"
#include "ferrite/data/zip.h"

namespace ferrite::data {

StateDict parse_npz(Bytes bytes, std::string_view name) {
  const Where where{"load_npz", name};
  const ZipReader archive(bytes, where);
  StateDict arrays;
  for (const ZipMember& member : archive.members()) {
    std::string key = member.name;
    if (key.ends_with(".npy")) key.resize(key.size() - 4);
    where.check(!key.empty() && !arrays.contains(key), member.entry,
                "expected a different name for each array, got '{}' twice or no name", key);
    const ZipContent content = archive.read(member);
    arrays.insert(std::move(key),
                  parse_npy(content.bytes, fmt::format("{}:{}", name, member.name), where.op));
  }
  return arrays;
}

StateDict load_npz(const std::filesystem::path& path) {
  const MappedFile file(path, "load_npz");
  return parse_npz(file.bytes(), path.string());
}

void save_npz(const StateDict& arrays, const std::filesystem::path& path,
              NpzCompression compression) {
  AtomicFile file(path, "save_npz");
  ZipWriter archive(file, "save_npz");
  for (const auto& [name, tensor] : arrays) {
    const Tensor dense = host_contiguous(tensor, "save_npz");
    std::string content = npy_header(dense.dtype(), dense.shape(), "save_npz");
    content.append(static_cast<const char*>(dense.data_ptr()), dense.nbytes());
    archive.add(name + ".npy", content,
                compression == NpzCompression::deflated ? ZipMethod::deflated : ZipMethod::stored);
  }
  archive.finish();
  file.commit();
}

}  // namespace ferrite::data
