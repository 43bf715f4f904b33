// Exchange through DLPack. Leaks show under the address sanitizer; the deleter is also counted.
#include <tutti/dlpack.hpp>
#include <tutti/error.hpp>

#include <dlpack/dlpack.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace tutti {
namespace {

/// A foreign producer: six floats as two rows of three, and a count of deleter calls.
struct Producer {
  Producer() {
    managed.dl_tensor = {.data = values.data(),
                         .device = {.device_type = kDLCPU, .device_id = 0},
                         .ndim = 2,
                         .dtype = {.code = kDLFloat, .bits = 32, .lanes = 1},
                         .shape = shape.data(),
                         .strides = nullptr,
                         .byte_offset = 0};
    managed.manager_ctx = this;
    managed.deleter = [](DLManagedTensor* self) {
      ++static_cast<Producer*>(self->manager_ctx)->deleted;
    };
  }
  Producer(const Producer&) = delete;
  Producer& operator=(const Producer&) = delete;

  DLTensor& tensor() { return managed.dl_tensor; }

  std::array<float, 6> values{0, 1, 2, 3, 4, 5};
  std::array<std::int64_t, 2> shape{2, 3};
  std::array<std::int64_t, 2> strides{1, 2};
  DLManagedTensor managed{};
  int deleted = 0;
};

template <class Expected>
std::string refusal(Producer& producer) {
  try {
    (void)from_dlpack(&producer.managed);
  } catch (const Expected& error) {
    return error.what();
  }
  return "not refused";
}

bool is_exported(DType dtype) {
  return dtype != DType::boolean && dtype != DType::f8e4m3fn && dtype != DType::f8e5m2;
}

TEST(DlPack, RoundTripsEveryDtypeItHas) {
  for (const DTypeInfo& row : kDTypes) {
    if (!is_exported(row.dtype)) {
      continue;
    }
    Tensor tensor = Tensor::arange(24, row.dtype).view({2, 3, 4}).transpose(0, 2);
    const Tensor expected = tensor.clone();
    void* data = tensor.data();
    DLManagedTensor* managed = to_dlpack(tensor);
    tensor = Tensor();  // the export keeps the memory
    const Tensor back = from_dlpack(managed);
    EXPECT_EQ(back.data(), data);
    EXPECT_EQ(back.dtype(), row.dtype);
    EXPECT_EQ(back.strides(), (Shape{1, 4, 12}));
    EXPECT_TRUE(back.identical(expected)) << row.name;
  }
}

TEST(DlPack, RefusesToExportWhatItLacks) {
  for (const DTypeInfo& row : kDTypes) {
    if (!is_exported(row.dtype)) {
      EXPECT_THROW((void)to_dlpack(Tensor::zeros({2}, row.dtype)), Unsupported) << row.name;
    }
  }
  EXPECT_THROW((void)to_dlpack(Tensor()), InvalidArgument);
}

TEST(DlPack, ExportsZeroDimensionsAndZeroElements) {
  DLManagedTensor* scalar = to_dlpack(Tensor::full({}, 3));
  EXPECT_EQ(scalar->dl_tensor.ndim, 0);
  EXPECT_NE(scalar->dl_tensor.shape, nullptr);
  EXPECT_EQ(from_dlpack(scalar).item(), 3);
  EXPECT_EQ(from_dlpack(to_dlpack(Tensor::empty({0, 2}))).shape(), (Shape{0, 2}));
}

TEST(DlPack, ConsumerMayDeleteAnExportUnused) {
  DLManagedTensor* managed = to_dlpack(Tensor::zeros({2, 2}, DType::bf16));
  EXPECT_EQ(managed->dl_tensor.dtype.code, kDLBfloat);
  EXPECT_EQ(managed->dl_tensor.dtype.bits, 16);
  EXPECT_EQ(managed->dl_tensor.dtype.lanes, 1);
  managed->deleter(managed);
}

TEST(DlPack, DeletesAnImportWithItsLastView) {
  Producer producer;
  Tensor tensor = from_dlpack(&producer.managed);
  Tensor view = tensor.select(0, 1);
  EXPECT_EQ(view.to_vector(), (std::vector<double>{3, 4, 5}));
  tensor = Tensor();
  EXPECT_EQ(producer.deleted, 0);
  view = Tensor();
  EXPECT_EQ(producer.deleted, 1);
}

TEST(DlPack, ImportsStridesAndByteOffset) {
  Producer producer;
  producer.tensor().byte_offset = sizeof(float);
  producer.shape = {2, 2};
  producer.tensor().strides = producer.strides.data();
  EXPECT_EQ(from_dlpack(&producer.managed).to_vector(), (std::vector<double>{1, 3, 2, 4}));
}

TEST(DlPack, AcceptsAMissingDeleter) {
  Producer producer;
  producer.managed.deleter = nullptr;
  EXPECT_EQ(from_dlpack(&producer.managed).elements(), 6U);
}

TEST(DlPack, LeavesARefusedImportToTheCaller) {
  Producer lanes;
  lanes.tensor().dtype.lanes = 4;
  EXPECT_EQ(refusal<Unsupported>(lanes),
            "DLPack import of type code 2 with 32 bits and 4 lanes; integers, floats, bfloat16 and "
            "complex numbers of one lane are supported");
  Producer type;
  type.tensor().dtype = {.code = 6, .bits = 8, .lanes = 1};  // bool, in later versions
  EXPECT_NE(refusal<Unsupported>(type), "not refused");
  Producer device;
  device.tensor().device = {.device_type = kDLCUDA, .device_id = 1};
  EXPECT_EQ(refusal<Unsupported>(device),
            "DLPack import from device type 2, id 1; only the CPU (type 1) is supported, copy the "
            "tensor there first");
  Producer dims;
  dims.tensor().ndim = 65;
  EXPECT_NE(refusal<InvalidArgument>(dims), "not refused");
  Producer extent;
  extent.shape = {2, -3};
  EXPECT_NE(refusal<InvalidArgument>(extent), "not refused");
  Producer strides;
  strides.strides = {INT64_MAX, 1};
  strides.tensor().strides = strides.strides.data();
  EXPECT_NE(refusal<InvalidArgument>(strides), "not refused");
  Producer data;
  data.tensor().data = nullptr;
  EXPECT_NE(refusal<InvalidArgument>(data), "not refused");
  Producer shape;
  shape.tensor().shape = nullptr;
  EXPECT_NE(refusal<InvalidArgument>(shape), "not refused");
  for (const Producer* producer :
       {&lanes, &type, &device, &dims, &extent, &strides, &data, &shape}) {
    EXPECT_EQ(producer->deleted, 0);
  }
  EXPECT_THROW((void)from_dlpack(nullptr), InvalidArgument);
}

}  // namespace
}  // namespace tutti
