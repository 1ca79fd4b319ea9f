from hypothesis import settings

settings.register_profile("degroot", deadline=None)  # the first call of a kernel compiles it
settings.load_profile("degroot")
