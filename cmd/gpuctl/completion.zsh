#compdef gpuctl
# gpuctl(1): completion for zsh. gpuctl itself says what to offer; see completion.c.

local line at
local -a lines offered

lines=("${(@f)$("${(Q)words[1]}" completion -- "${(@Q)words[2,CURRENT]}" 2>/dev/null)}")
for line in $lines; do
	case $line in
	:files) _files ;;
	:command*)
		at=${line#*$'\t'}
		words=("${(@)words[at + 2,-1]}")
		((CURRENT -= at + 1))
		_normal
		;;
	?*$'\t'*) offered+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}") ;;
	?*) offered+=("${line//:/\\:}") ;;
	esac
done
((! $#offered)) || _describe -t gpuctl gpuctl offered
