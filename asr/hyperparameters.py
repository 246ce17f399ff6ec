from asr.convert.hyperparameters import Encoder, Hyperparameters, Preprocessor, Transducer
