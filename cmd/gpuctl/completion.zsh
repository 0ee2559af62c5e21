#compdef gpuctl mnist-train gpucoord gpudev
# gpuctl(1) and the other programs: completion for zsh. gpuctl supplies the candidates; see completion.c.

local line at program=${${(Q)words[1]}:t}
local -a ask=("${${(Q)words[1]}%$program}gpuctl" completion --)
local -a lines offered

[[ $program == gpuctl ]] || ask+=($program)
lines=("${(@f)$("${ask[@]}" "${(@Q)words[2,CURRENT]}" 2>/dev/null)}")
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
