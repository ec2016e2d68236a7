import Codecs
import TransportAPI

extension MessageCodec {
    /// The message as a payload, of the kind that fits the format.
    ///
    /// - Throws: `.messageTooLarge` for a message beyond the codec's limits, `.invalidConfiguration` for one that the codec
    ///   refuses for another reason.
    func payload<Message: WireMessage>(of message: consuming Message) throws(TransportError) -> Payload {
        do throws(CodecError) {
            return Payload(try encode(message), kind: format.isText ? .text : .binary)
        } catch {
            switch error.code {
            case .tooDeep, .tooLong, .tooManyElements, .keyTooLong:
                let advice = "shorten the message, or raise this limit of the codecs on both sides"
                throw TransportError(.messageTooLarge, .open, "the message can't be encoded: \(error): \(advice)")
            default: throw TransportError(.invalidConfiguration, .open, "the message can't be encoded: \(error)")
            }
        }
    }
}
