import TransportAPI

/// Writes frames (RFC 6455, section 5.2). Header and payload are written directly to the output, and the payload is
/// masked during the copy.
enum FrameWriter {
    /// Writes one frame. Clients pass a new and unpredictable `maskKey` for each frame (section 5.3), servers pass
    /// `nil`.
    @inline(__always)
    static func write(
        _ opcode: Opcode,
        isFinal: Bool = true,
        reservedBits: UInt8 = 0,
        _ payload: UnsafeRawBufferPointer,
        maskKey: UInt32?,
        to output: inout ByteBuffer
    ) {
        _ = output.write(minimum: FrameHeader.maximumSize + payload.count) { target in
            target[0] = (isFinal ? 0x80 : 0) | reservedBits | opcode.rawValue
            var size = writeLength(payload.count, maskBit: maskKey == nil ? 0 : 0x80, to: target)
            guard let start = target.baseAddress else { return 0 }
            if let maskKey {
                target.storeBytes(of: maskKey.littleEndian, toByteOffset: size, as: UInt32.self)
                size += 4
                Masking.copy(payload, to: start + size, key: maskKey)
            } else if let source = payload.baseAddress {
                (start + size).copyMemory(from: source, byteCount: payload.count)
            }
            return size + payload.count
        }
    }

    /// Writes the length in its shortest form. Returns the offset behind it.
    @inline(__always)
    private static func writeLength(_ length: Int, maskBit: UInt8, to target: UnsafeMutableRawBufferPointer) -> Int {
        if length <= 125 {
            target[1] = maskBit | UInt8(truncatingIfNeeded: length)
            return 2
        }
        if length <= Int(UInt16.max) {
            target[1] = maskBit | 126
            target.storeBytes(of: UInt16(truncatingIfNeeded: length).bigEndian, toByteOffset: 2, as: UInt16.self)
            return 4
        }
        target[1] = maskBit | 127
        target.storeBytes(of: UInt64(length).bigEndian, toByteOffset: 2, as: UInt64.self)
        return 10
    }
}
