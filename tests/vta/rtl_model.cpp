// Main memory and host of a verilated machine (tests/vta/rtl_model.h).
#include <cstring>
#include <deque>
#include <memory>

#include "Vvta.h"

extern "C" {
#include "rtl_model.h"
}

namespace {

constexpr uint32_t bus_bytes = VTA_BUS_BITS / 8;
constexpr uint32_t store_engine = 2;
constexpr uint32_t store_channel = store_engine % VTA_CHANNELS;

// Ports are numbers of any width: bits of them, from `bit` on.
template <typename Port>
uint64_t bits_of(const Port &port, uint32_t bit, uint32_t count) {
    uint64_t value = 0;
    std::memcpy(&value, reinterpret_cast<const uint8_t *>(&port) + bit / 8, (bit % 8 + count + 7) / 8);
    return (value >> bit % 8) & ((uint64_t(1) << count) - 1);
}

// A beat that is read, or a burst that is written.
struct Beat {
    uint64_t cycle;
    uint64_t address;
    uint32_t engine;
    bool last;
};

struct Channel {
    uint64_t free = 0;  // the first cycle in which it takes a request
    std::deque<Beat> reads;
    uint32_t beats_to_write = 0;
    uint64_t write_from = 0, write_address = 0;
};

class Machine {
  public:
    explicit Machine(rtl_run *run) : run_(run) {}

    bool run() {
        top_.reset = 1;
        step();
        top_.reset = 0;
        set_register(KILN_VTA_REGISTER_PROGRAM, run_->program_address);
        set_register(KILN_VTA_REGISTER_COUNT, run_->instruction_count);
        set_register(KILN_VTA_REGISTER_STATE, 1);
        top_.register_number = KILN_VTA_REGISTER_STATE;
        for (cycle_ = 0; cycle_ < run_->cycles_most; cycle_++) {
            present();
            top_.clock = 0;
            top_.eval();
            if (!(top_.register_read_data & KILN_VTA_STATE_RUNS)) return finish();
            for (uint32_t c = 0; c < VTA_CHANNELS; c++)
                if (!take_request(c)) return false;
            take_write();
            top_.clock = 1;
            top_.eval();
        }
        run_->fault = "it did not finish";
        return false;
    }

  private:
    void step() {
        top_.clock = 0;
        top_.eval();
        top_.clock = 1;
        top_.eval();
    }

    void set_register(uint32_t number, uint32_t value) {
        top_.register_write = 1;
        top_.register_number = number;
        top_.register_write_data = value;
        step();
        top_.register_write = 0;
    }

    uint32_t get_register(uint32_t number) {
        top_.register_number = number;
        top_.eval();
        return top_.register_read_data;
    }

    // Inputs of this cycle.
    void present() {
        uint8_t *data = reinterpret_cast<uint8_t *>(&top_.read_data);
        top_.read = top_.read_engine = top_.read_last = top_.request_ready = 0;
        for (uint32_t c = 0; c < VTA_CHANNELS; c++) {
            Channel &channel = channel_[c];
            if (cycle_ >= channel.free && !channel.beats_to_write) top_.request_ready |= 1u << c;
            if (channel.reads.empty() || channel.reads.front().cycle > cycle_) continue;
            const Beat &beat = channel.reads.front();
            std::memcpy(data + c * bus_bytes, run_->dram + beat.address, bus_bytes);
            top_.read |= 1u << c;
            top_.read_engine |= beat.engine << 2 * c;
            top_.read_last |= beat.last ? 1u << c : 0;
            channel.reads.pop_front();
        }
        const Channel &store = channel_[store_channel];
        top_.write_ready = store.beats_to_write && cycle_ >= store.write_from;
    }

    bool take_request(uint32_t c) {
        if (!(top_.request >> c & 1) || !(top_.request_ready >> c & 1)) return true;
        Channel &channel = channel_[c];
        const uint32_t engine = (uint32_t)bits_of(top_.request_engine, 2 * c, 2);
        const uint32_t beats = (uint32_t)bits_of(top_.request_beats, 8 * c, 8) + 1;
        const uint64_t address = bits_of(top_.request_address, 32 * c, 32);
        if (address % bus_bytes || address + uint64_t(beats) * bus_bytes > run_->dram_bytes) {
            run_->fault = "it asked for bytes outside of main memory";
            return false;
        }
        const uint64_t moved = cycle_ + run_->row_cycles;
        channel.free = moved + beats;
        if (top_.request_write >> c & 1) {
            channel.beats_to_write = beats;
            channel.write_from = moved;
            channel.write_address = address;
            return true;
        }
        // The engine's queue passes a beat on in the cycle behind the one in which it comes.
        for (uint32_t k = 0; k < beats; k++)
            channel.reads.push_back({moved + k + run_->latency - 1, address + uint64_t(k) * bus_bytes,
                                     engine, k + 1 == beats});
        return true;
    }

    void take_write() {
        if (!top_.write_ready || !top_.write_valid) return;
        Channel &channel = channel_[store_channel];
        const uint8_t *data = reinterpret_cast<const uint8_t *>(&top_.write_data);
        for (uint32_t k = 0; k < bus_bytes; k++)
            if (bits_of(top_.write_strobe, k, 1)) run_->dram[channel.write_address + k] = data[k];
        channel.write_address += bus_bytes;
        if (--channel.beats_to_write == 0 && channel.free <= cycle_) channel.free = cycle_ + 1;
    }

    bool finish() {
        run_->cycles = get_register(KILN_VTA_REGISTER_CYCLES_LOW);
        run_->cycles |= uint64_t(get_register(KILN_VTA_REGISTER_CYCLES_HIGH)) << 32;
        for (uint32_t e = 0; e < KILN_VTA_ENGINE_COUNT; e++)
            run_->ended[e] = get_register(KILN_VTA_REGISTER_ENDED + e);
        return true;
    }

    rtl_run *run_;
    Vvta top_;
    uint64_t cycle_ = 0;
    Channel channel_[VTA_CHANNELS];
};

}  // namespace

extern "C" bool rtl_model_run(rtl_run *run) { return std::make_unique<Machine>(run)->run(); }
